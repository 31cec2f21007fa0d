// The metric of an experiment over a choice of sizes: every seed, its mean and interval, arms apart.

// A baseline further off than so many times the height of the points is told in words.
const BASELINE_REACH = 3;
const INTERVAL_REACH = 1.5; // the same of intervals, beyond which they are cut

function drawPoints(width, figure, series, across) {
  const height = Math.round(Math.min(400, Math.max(260, width * 0.55)));
  const points = series.flatMap((one) => one.points);
  const near = nearBaselines(figure, heightsOf(points));
  const xs = points.map((point) => point.x[across]);
  const words = figure.across.find(({ key }) => key === across).words;
  const beside = near.map(({ value }) => value);
  const given = [...heightsOf(points), ...beside];
  const axes = { x: words, y: figure.words, own: across.startsWith("model."), given };
  const box = plot(width, height, xs, [...spanned(points), ...beside], axes);
  const marks = near.map((one) => baselineMark(one, box.right + 2, box.upward(one.value)));
  box.svg.append(shape("g", { class: "beside" }, marks));
  const spots = series.flatMap((one) => drawSeries(box, figure, one, across));
  pickable(box.svg, () => spots);
  return box.svg;
}

// Draws a series; returns a spot for each of its seeds.
function drawSeries(box, figure, one, across) {
  const places = one.points.map((point) => [box.across(point.x[across]), box.upward(point.mean)]);
  const line = places.map((place) => place.join()).join(" ");
  const group = shape("g", { style: { color: one.colour } });
  if (!one.hollow) group.append(shape("polyline", { class: "mean", points: line }));
  const spots = one.points.flatMap((point, index) => {
    const [x, y] = places[index];
    if (point.ends) {
      const [low, high] = point.ends.map((end) => clipped(box, end));
      group.append(shape("line", { class: "interval", x1: x, x2: x, y1: low, y2: high }));
    }
    const found = point.seeds.map(([seed, value, run]) => {
      const at = { cx: x, cy: box.upward(value), r: 3 };
      const dot = shape("circle", { class: "seed", "data-run": run, ...at });
      const tell = () => [...tipLines(figure, one, point, seed, value), run];
      return { x, y: at.cy, run, dot, tell };
    });
    const transform = `translate(${x} ${y}) scale(4)`;
    group.append(...found.map(({ dot }) => dot), marker(one, { transform }));
    return found;
  });
  box.svg.append(group);
  return spots;
}

// An interval may be wider than all points together, and on a logarithmic scale end below all of
// it; it is drawn as far as the box goes.
function clipped(box, end) {
  const y = box.upward(end);
  return Number.isFinite(y) ? Math.min(Math.max(y, box.top), box.bottom) : box.bottom;
}

// What the height axis spans: every seed, and intervals as far as they do not flatten the curves.
function spanned(points) {
  const seeds = heightsOf(points);
  const [low, high] = [Math.min(...seeds), Math.max(...seeds)];
  const reach = (high - low) * INTERVAL_REACH || Math.abs(high) * 0.05;
  const floor = low > 0 ? Math.max(low - reach, low / 2) : low - reach;
  const ends = points.flatMap((point) => point.ends ?? []);
  return [...seeds, ...ends.map((end) => Math.min(Math.max(end, floor), high + reach))];
}

function heightsOf(points) {
  return points.flatMap((point) => point.seeds.map(([, value]) => value));
}

function nearBaselines(figure, heights) {
  const [low, high] = [Math.min(...heights), Math.max(...heights)];
  const reach = BASELINE_REACH * (high - low || Math.abs(high) * 0.1);
  return figure.baselines.filter(({ value }) => value >= low - reach && value <= high + reach);
}

function tipLines(figure, one, point, seed, value) {
  const others =
    point.seeds.length > 1 ? `mean of ${point.seeds.length} seeds ${short(point.mean, 5)}` : "";
  return [
    `${figure.words} ${short(value, 5)}`,
    one.name,
    `${point.name || "one setting"}, seed ${seed}`,
    others,
  ];
}

function figureView(figure, arms) {
  if (!figure.points.length) {
    const words = `No finished run has a ${figure.words} yet. ${figure.missing}`;
    return element("p", { class: "empty" }, words);
  }
  let across = figure.across[0].key;
  const place = element("div", { class: "chart" });
  const key = element("div");
  const redraw = fitted(place, (width) => {
    const series = seriesOf(figure, arms, across);
    key.replaceChildren(legend(series, nearBaselines(figure, heightsOf(figure.points))));
    return drawPoints(width, figure, series, across);
  });
  const choose = (chosen) => {
    across = chosen;
    redraw();
  };
  const over = figure.across.length > 1 ? choice("Over", figure.across, choose) : null;
  const caption = over && element("figcaption", null, over);
  return element(
    "figure",
    null,
    caption,
    place,
    key,
    element("p", { class: "faint" }, notesOn(figure)),
  );
}

// What a reader must know of a figure, in sentences.
function notesOn(figure) {
  const near = nearBaselines(figure, heightsOf(figure.points));
  const far = figure.baselines.filter((one) => !near.includes(one));
  const words = far.map((one) => `${one.words} ${short(one.value)}`).join(", ");
  const better = figure.better === "lower" ? "Lower is better." : "Higher is better.";
  const outside = words && `Outside the figure: ${words}.`;
  const told = [figure.better && better, figure.marks, figure.missing, outside];
  return told.filter(Boolean).join(" ");
}
