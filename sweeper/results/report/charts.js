// The metric of an experiment over a choice of sizes: every seed, its mean and interval, arms apart.

const NEAR = 28; // how far from a point, in pixels, a pointer still means it
const BASELINE_REACH = 3; // a baseline further off than so many times the height of the points is told in words

function drawPoints(width, figure, series, across) {
  const height = Math.round(Math.min(400, Math.max(260, width * 0.55)));
  const points = series.flatMap((one) => one.points);
  const heights = points.flatMap((point) => point.seeds.map(([, value]) => value));
  const near = nearBaselines(figure, heights);
  const words = figure.across.find(({ key }) => key === across).words;
  const box = plot(
    width,
    height,
    points.map((point) => point.x[across]),
    [...heights, ...near.map(([, value]) => value)],
    { x: words, y: figure.words, own: across.startsWith("model.") },
  );
  for (const [name, value] of near) {
    box.svg.append(
      shape("line", {
        class: "baseline",
        x1: box.left,
        x2: box.right,
        y1: box.upward(value),
        y2: box.upward(value),
      }),
      shape(
        "text",
        { class: "tick", x: box.right, y: box.upward(value) - 5, "text-anchor": "end" },
        name,
      ),
    );
  }
  const spots = [];
  for (const one of series) {
    const at = (point) => box.across(point.x[across]);
    const group = shape("g", { style: { color: one.colour } });
    if (!one.hollow)
      group.append(
        shape("polyline", {
          class: "mean",
          points: one.points.map((point) => `${at(point)},${box.upward(point.mean)}`).join(" "),
        }),
      );
    for (const point of one.points) {
      if (point.ends)
        group.append(
          shape("line", {
            class: "interval",
            x1: at(point),
            x2: at(point),
            ...clipped(box, point.ends, height),
          }),
        );
      for (const [seed, value, run] of point.seeds) {
        const dot = shape("circle", {
          class: "seed",
          cx: at(point),
          cy: box.upward(value),
          r: 3,
          "data-run": run,
        });
        group.append(dot);
        spots.push({
          x: at(point),
          y: box.upward(value),
          run,
          dot,
          tell: () => [...tipLines(figure, one, point, seed, value), run],
        });
      }
      group.append(
        marker(one, { transform: `translate(${at(point)} ${box.upward(point.mean)}) scale(4)` }),
      );
    }
    box.svg.append(group);
  }
  pickable(box.svg, () => spots);
  return box.svg;
}

// An interval may be wider than all points together; it is drawn as far as the box goes.
function clipped(box, ends, height) {
  const [low, high] = ends.map((end) => Math.min(Math.max(box.upward(end), 24), height - 46));
  return { y1: Number.isFinite(low) ? low : height - 46, y2: high };
}

function nearBaselines(figure, heights) {
  const [low, high] = [Math.min(...heights), Math.max(...heights)];
  const reach = BASELINE_REACH * (high - low || Math.abs(high) * 0.1);
  return Object.entries(figure.baselines).filter(
    ([, value]) => value >= low - reach && value <= high + reach,
  );
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

// A pointer near one of the spots, which `spots` gives, tells of its run; a click opens it.
function pickable(svg, spots) {
  let chosen = null;
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const far = ({ x, y }) =>
      Math.hypot(x - (event.clientX - box.left), y - (event.clientY - box.top));
    const [best] = spots().reduce(
      ([spot, least], other) => (far(other) < least ? [other, far(other)] : [spot, least]),
      [null, NEAR],
    );
    return best;
  };
  const choose = (spot) => {
    chosen?.dot.classList.remove("chosen");
    chosen = spot;
    chosen?.dot.classList.add("chosen");
    svg.classList.toggle("over", spot !== null);
  };
  svg.addEventListener("pointermove", (event) => {
    choose(nearest(event));
    if (chosen) showTip(chosen.tell(), event);
    else hideTip();
  });
  svg.addEventListener("pointerleave", () => {
    choose(null);
    hideTip();
  });
  svg.addEventListener("click", (event) => {
    const spot = nearest(event);
    if (spot) openRun(spot.run);
  });
}

function figureView(figure, arms) {
  if (!figure.points.length)
    return element(
      "p",
      { class: "empty" },
      `No finished run has a ${figure.words} yet. ${figure.missing}`,
    );
  let across = figure.across[0].key;
  const place = element("div", { class: "chart" });
  const key = element("div");
  const redraw = fitted(place, (width) => {
    const series = seriesOf(figure.points, arms, across);
    key.replaceChildren(legend(series));
    return drawPoints(width, figure, series, across);
  });
  const heights = figure.points.flatMap((point) => point.seeds.map(([, value]) => value));
  const near = nearBaselines(figure, heights).map(([name]) => name);
  const far = Object.entries(figure.baselines)
    .filter(([name]) => !near.includes(name))
    .map(([name, value]) => `${name} ${short(value)}`);
  const notes = [
    figure.better && `${figure.better} is better.`,
    figure.missing,
    far.length && `Outside the figure: ${far.join(", ")}.`,
  ]
    .filter(Boolean)
    .join(" ");
  return element(
    "figure",
    null,
    figure.across.length > 1
      ? element(
          "figcaption",
          null,
          choice("Over", figure.across, (chosen) => {
            across = chosen;
            redraw();
          }),
        )
      : null,
    place,
    key,
    element("p", { class: "faint" }, notes.charAt(0).toUpperCase() + notes.slice(1)),
  );
}
