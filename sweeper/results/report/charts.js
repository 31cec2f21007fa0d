// Charts of the page: uPlot draws axes and lines; this file describes them and draws the marks.

const LETTER = 6.6; // width of a letter on an axis, in pixels
const LOG_FROM = 10; // an axis is logarithmic from this ratio of its largest to its smallest value
const NEAR = 28; // pixels between the pointer and the spot that it selects

const tip = document.getElementById("tip");

// Show lines of text near the place of a pointer or of the corner of an element.
function showTip(lines, { x, y }) {
  tip.replaceChildren();
  fill(tip, lines.filter(Boolean).map((line) => make("div", line)));
  tip.togglePopover(true);
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(x + 14, document.documentElement.clientWidth - width - 8);
  const top = y + 18 + height > window.innerHeight ? y - height - 12 : y + 18;
  tip.style.inset = `${Math.max(8, top)}px auto auto ${Math.max(8, left)}px`;
}

const inks = new Map(); // resolved colours; the browser takes long to resolve thousands

// Resolve a CSS colour, with its variables, to one that a canvas understands.
function resolved(colour) {
  if (!inks.has(colour)) {
    tip.style.outlineColor = colour;
    inks.set(colour, getComputedStyle(tip).outlineColor);
  }
  return inks.get(colour);
}

const smallest = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

// Describe an axis through `values`: numbers, or words, which stand side by side. With `own`, ticks
// stand at the values. `given` are the values that decide whether the axis is logarithmic.
function axisOf(words, values, { own = false, pad = 0.05, given = values } = {}) {
  const distinct = [...new Set(values)];
  if (distinct.some((value) => typeof value === "string")) {
    const range = [-0.5, distinct.length - 0.5];
    const at = (value) => distinct.indexOf(value);
    const format = (place) => String(distinct[place]);
    return { words, range, at, ticks: distinct.map(at), format };
  }
  const log = smallest(given) > 0 && largest(given) / smallest(given) >= LOG_FROM;
  const [bend, unbend] = log ? [Math.log, Math.exp] : [Number, Number];
  const [least, most] = [bend(smallest(values)), bend(largest(values))];
  const span = most - least || Math.abs(most) * 0.2 || 1;
  const range = [unbend(least - span * pad), unbend(most + span * pad)];
  const few = own && distinct.length <= 10 && distinct.sort((a, b) => a - b);
  const ticks = few || (log && logTicks(...range));
  return { words: log ? `${words} (log)` : words, log, range, at: Number, ticks, format: short };
}

function logTicks(low, high) {
  const first = Math.floor(Math.log10(low));
  const length = Math.ceil(Math.log10(high / low)) + 1;
  const digits = length > 4 ? [1] : [1, 2, 5];
  const powers = Array.from({ length }, (_, place) => 10 ** (first + place));
  const ticks = powers.flatMap((power) => digits.map((digit) => digit * power));
  return ticks.filter((tick) => tick >= low && tick <= high);
}

// Return uPlot's options for an axis; where words of own ticks would overlap, the first stays.
function axisOptions({ ticks, format }, across) {
  const stroke = () => resolved("var(--faint)");
  const line = { show: across, stroke, width: 1, size: 5 };
  const splits = (plot) => {
    let edge = -Infinity;
    return ticks.filter((tick) => {
      const half = across ? (format(tick).length * LETTER + 10) / 2 : 12;
      const middle = across ? plot.valToPos(tick, "x") : -plot.valToPos(tick, "y");
      const free = middle - half >= edge;
      if (free) edge = middle + half;
      return free;
    });
  };
  return {
    scale: across ? "x" : "y",
    stroke,
    font: "11px system-ui, sans-serif",
    space: across ? 70 : (_plot, _axis, _low, _high, height) => Math.min(44, height / 4),
    size: across ? 26 : (_, words) => 12 + LETTER * largest((words ?? [""]).map((w) => w.length)),
    grid: { show: !across, stroke: () => resolved("var(--rule)"), width: 1 },
    ticks: line,
    border: line,
    values: (_, shown) => shown.map((tick) => format(tick)),
    ...(ticks && { splits, filter: (_, shown) => shown }),
  };
}

// Create a chart.
//   x, y    the axes, of axisOf
//   lines   xs, ys, colour and width of each; there is one at least
//   spots   what a pointer selects: x, y, the run that opens, perhaps the line that stands out
//   tell    returns the lines of text on a spot
//   paint   draws the rest: paint(context, across, upward, size); pixels count from the corner
function chartView({ x, y, lines, spots = [], tell, paint }) {
  let [plot, chosen] = [null, null];
  const ring = make("div.ring", { hidden: true });
  const across = (value) => plot.valToPos(x.at(value), "x");
  const upward = (value) => plot.valToPos(value, "y");
  const choose = (spot, pointer) => {
    chosen = spot;
    ring.hidden = !spot;
    plot.setSeries(spot?.line ?? null, { focus: true });
    if (!spot) return tip.togglePopover(false);
    ring.style.translate = `${across(spot.x)}px ${upward(spot.y)}px`;
    showTip(tell(spot), pointer ?? ring.getBoundingClientRect());
  };
  const nearest = ({ x, y }) => {
    const { left, top } = plot.over.getBoundingClientRect();
    let [best, least] = [null, NEAR];
    for (const spot of spots) {
      const far = Math.hypot(left + across(spot.x) - x, top + upward(spot.y) - y);
      if (far < least) [best, least] = [spot, far];
    }
    return best;
  };
  const open = (spot) => {
    if (spot) location.hash = runAddress(spot.run);
  };
  const step = (by) => {
    const next = chosen ? spots.indexOf(chosen) + by : Math.min(by, 0);
    if (spots.length) choose(spots.at(next % spots.length));
  };
  const keys = {
    ArrowRight: () => step(1),
    ArrowLeft: () => step(-1),
    Enter: () => open(chosen),
    Escape: () => choose(null),
  };
  const body = make("div.plot", {
    onpointermove: (event) => choose(nearest(event), event),
    onpointerleave: () => choose(null),
    onclick: (event) => open(nearest(event)),
  });
  const draw = ({ ctx, bbox }) => {
    const ratio = uPlot.pxRatio;
    ctx.save();
    ctx.translate(bbox.left, bbox.top);
    ctx.scale(ratio, ratio);
    paint?.(ctx, across, upward, { width: bbox.width / ratio, height: bbox.height / ratio });
    ctx.restore();
  };
  const scale = ({ log, range }) => ({ time: false, distr: log ? 3 : 1, range: () => range });
  const series = ({ colour, width }) => ({
    facets: [{ scale: "x", auto: false }, { scale: "y", auto: false }],
    points: { show: false },
    paths: uPlot.paths.linear(),
    stroke: () => resolved(colour),
    width,
  });
  const options = {
    mode: 2, // each line has its own x values
    padding: [8, 14, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    focus: { alpha: 0.15 },
    scales: { x: scale(x), y: scale(y) },
    axes: [axisOptions(x, true), axisOptions(y, false)],
    series: [{}, ...lines.map(series)],
    hooks: { draw: [draw] },
  };
  const values = lines.map(({ xs, ys }) => [xs.map(x.at), ys]);
  new ResizeObserver(([{ contentRect: { width, height } }]) => {
    if (plot) return plot.setSize({ width, height });
    plot = new uPlot({ ...options, width, height }, [null, ...values], body);
    plot.over.append(ring);
  }).observe(body);
  const place = make(
    "div.chart",
    {
      tabIndex: 0,
      role: "img",
      ariaLabel: `${y.words} over ${x.words}. Arrow keys select, Enter opens.`,
      onkeydown: ({ key }) => keys[key]?.(),
      onblur: () => choose(null),
    },
    make("div.axis-words", y.words),
    body,
    make("div.axis-words.across", x.words),
  );
  return Object.assign(place, { spots, redraw: () => plot?.redraw() });
}

function redrawAll() {
  inks.clear();
  for (const place of document.querySelectorAll(".chart")) place.redraw();
}

// Figures of an experiment

// Marks of radius 1, in the order of the printed figures.
const MARKERS = [
  "M-1 0A1 1 0 1 0 1 0A1 1 0 1 0 -1 0Z",
  "M-.9-.9H.9V.9H-.9Z",
  "M0-1.15L1.1.85H-1.1Z",
  "M0-1.3L1.1 0L0 1.3L-1.1 0Z",
  "M0 1.15L1.1-.85H-1.1Z",
  "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
  "M-1-1L1 1M1-1L-1 1",
];
const BASELINE_MARK = "M0 0L2-1.2V1.2Z";
const LIGHTEST = 40; // per cent of an arm's colour in the first of its curves
const INTERVAL_REACH = 1.5; // heights of the points; a longer interval is cut

const lookOf = (arms, arm) => arms.find(({ name }) => name === arm);
const colourOf = (arms, arm) => `var(--arm-${lookOf(arms, arm).colour})`;

// Group points into curves: points of one arm that differ only in what varies along the curve.
function curvesOf({ points }, arms, axis) {
  const several = arms.length > 1;
  const placed = points.filter(({ x }) => x[axis] !== null);
  return [...Map.groupBy(placed, ({ arm }) => arm)].flatMap(([arm, own]) => {
    const look = lookOf(arms, arm);
    const family = [...Map.groupBy(own, ({ curves }) => curves[axis])];
    family.sort(([a], [b]) => compared(a, b));
    return family.map(([words, curve], place) => {
      const share = LIGHTEST + ((100 - LIGHTEST) * place) / (family.length - 1);
      const mixed = `color-mix(in srgb, ${colourOf(arms, arm)} ${share}%, white)`;
      return {
        name: [(several || !words) && look.label, words].filter(Boolean).join(": "),
        colour: family.length > 1 ? mixed : colourOf(arms, arm),
        marker: MARKERS[(several ? look.marker : place) % MARKERS.length],
        hollow: look.single,
        points: curve.sort((a, b) => compared(a.x[axis], b.x[axis]) || a.mean - b.mean),
      };
    });
  });
}

function drawMark(context, { marker, colour, hollow }, x, y, size = 4) {
  const [ink, paper] = [resolved(colour), resolved("var(--paper)")];
  context.save();
  context.translate(x, y);
  context.scale(size, size);
  context.fillStyle = hollow ? paper : ink;
  context.strokeStyle = hollow ? ink : paper;
  context.lineWidth = (hollow ? 1.6 : 1) / size;
  const shape = new Path2D(marker);
  context.fill(shape);
  context.stroke(shape);
  context.restore();
}

function drawLine(context, colour, ...points) {
  context.strokeStyle = resolved(colour);
  context.lineWidth = 1.2;
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}

const clipped = (y, height) => (Number.isFinite(y) ? Math.min(Math.max(y, 0), height) : height);

function pointsChart(figure, curves, baselines, axis) {
  const points = curves.flatMap((curve) => curve.points);
  const values = points.flatMap(({ seeds }) => seeds.map(([, value]) => value));
  const [low, high] = [smallest(values), largest(values)];
  const reach = (high - low) * INTERVAL_REACH || Math.abs(high) * 0.05;
  const floor = low > 0 ? Math.max(low - reach, low / 2) : low - reach;
  const ends = points.flatMap((point) => point.ends ?? []);
  const cut = ends.map((end) => Math.min(Math.max(end, floor), high + reach));
  const words = figure.across.find(({ key }) => key === axis).words;
  const x = axisOf(words, points.map((point) => point.x[axis]), { own: axis.startsWith("model.") });
  const given = [...values, ...baselines.map(({ value }) => value)];
  const y = axisOf(figure.words, [...given, ...cut], { pad: 0.08, given });
  const lines = curves.map((curve) => ({
    xs: curve.points.map((point) => point.x[axis]),
    ys: curve.points.map(({ mean }) => mean),
    colour: curve.colour,
    width: curve.hollow ? 0 : 2,
  }));
  const paint = (context, across, upward, { width, height }) => {
    for (const curve of curves) {
      const seed = { marker: MARKERS[0], colour: curve.colour };
      for (const point of curve.points) {
        const at = across(point.x[axis]);
        const bar = (point.ends ?? []).map((end) => [at, clipped(upward(end), height)]);
        context.globalAlpha = 0.7;
        drawLine(context, curve.colour, ...bar);
        context.globalAlpha = 0.4;
        for (const [, value] of point.seeds) drawMark(context, seed, at, upward(value), 3);
        context.globalAlpha = 1;
        drawMark(context, curve, at, upward(point.mean));
      }
    }
    for (const one of baselines) drawMark(context, one, width + 2, upward(one.value));
  };
  const spots = curves.flatMap((curve) =>
    curve.points.flatMap((point) =>
      point.seeds.map(([seed, y, run]) => ({ x: point.x[axis], y, run, seed, point, curve })),
    ),
  );
  const tell = ({ y, run, seed, point, curve }) => [
    `${figure.words} ${short(y, 5)}`,
    curve.name,
    `${point.name || "one setting"}, seed ${seed}`,
    point.seeds.length > 1 &&
      `${figure.average} of ${point.seeds.length} seeds ${short(point.mean, 5)}`,
    run,
  ];
  return chartView({ x, y, lines, spots, tell, paint });
}

function legendEntry({ name, marker, colour, hollow, points }) {
  const icon = document.querySelector("#mark").content.firstChild.cloneNode(true);
  const [line, mark] = icon.children;
  if (hollow || !points) line.remove();
  mark.setAttribute("d", marker);
  mark.classList.toggle("hollow", hollow);
  return make("li", { style: `color: ${colour}` }, icon, make("span", name));
}

function figureView(figure, arms) {
  const { words, points, across, better, missing } = figure;
  if (!points.length) return emptyNote(`No finished run has a ${words} yet. ${missing}`);
  const baselines = figure.baselines.map(({ words, value, near, hollow }) => {
    const name = `${words} ${short(value)}${near ? "" : ", outside the figure"}`;
    return { name, value, near, marker: BASELINE_MARK, colour: "var(--faint)", hollow };
  });
  const near = baselines.filter((one) => one.near);
  const place = make("div");
  const show = (axis) => {
    const curves = curvesOf(figure, arms, axis);
    const legend = make("ul.legend", [...curves, ...baselines].map(legendEntry));
    place.replaceChildren(pointsChart(figure, curves, near, axis), legend);
  };
  show(across[0].key);
  const aim = better && `${better === "lower" ? "Lower" : "Higher"} is better.`;
  const notes = [aim, figure.marks, missing].filter(Boolean).join(" ");
  const over = across.length > 1 && make("figcaption", choice("Over", across, show));
  return make("figure", over, place, make("p.faint", notes));
}

// How the interval of each contrast closed, round by round, until it left zero or lay in the margin

function closingView(claims) {
  const article = ({ claim, measure, answer, contrasts, margin, unit }) => {
    const words = [claim, measure].filter(Boolean).join(", ");
    const figures = contrasts.map(({ words, steps }) =>
      make("figure", closingChart(words, steps, margin ?? [0, 0], unit)),
    );
    const head = make("h4", words, ": ", answerWord(answer));
    return make("article", head, make("div.closings", figures));
  };
  const how = make("p.faint", "Above zero the claim is right; the band is the margin.");
  return details(true, "How the intervals closed, round by round", how, claims.map(article));
}

function closingChart(words, steps, margin, unit) {
  const near = [0, ...steps.at(-1).filter((value) => value !== null), ...margin];
  const reach = (largest(near) - smallest(near) || 1) / 2;
  const heights = [smallest(near) - reach, largest(near) + reach];
  const axis = axisOf(words, heights, { pad: 0, given: [0] });
  const y = { ...axis, format: (value) => short(value) + unit };
  const x = axisOf("round", steps.map((_, place) => place + 1), { own: true, given: [0] });
  const dot = { marker: MARKERS[0], colour: "var(--accent)" };
  const paint = (context, across, upward, { width, height }) => {
    const inside = (value) => clipped(upward(value), height);
    context.fillStyle = resolved("var(--band)");
    const [bottom, top] = margin.map(inside);
    context.fillRect(0, top, width, bottom - top);
    context.setLineDash([5, 3]);
    drawLine(context, "var(--faint)", [0, inside(0)], [width, inside(0)]);
    steps.forEach(([value, low, high], place) => {
      if (value === null) return;
      const at = across(place + 1);
      context.setLineDash(low === null && high === null ? [2, 4] : []);
      const ends = [low === null ? height : inside(low), high === null ? 0 : inside(high)];
      drawLine(context, dot.colour, ...ends.map((end) => [at, end]));
      context.setLineDash([]);
      drawMark(context, dot, at, inside(value), 3);
    });
  };
  return chartView({ x, y, lines: [{ xs: [], ys: [], colour: dot.colour }], paint });
}

// Training curves

const MOST_CURVES = 500; // drawn at once

const namesOfCurves = (ids) =>
  [...new Set(ids.flatMap((id) => Object.keys(data.runs[id].curves ?? {})))].sort();

// Draw one curve of each run; `look(id)` returns its colour and perhaps a word about it.
function trainingChart(ids, name, look = () => ({ colour: "var(--accent)" })) {
  const lines = ids.filter((id) => data.runs[id].curves?.[name]).map((id) => {
    const [steps, ys] = data.runs[id].curves[name];
    return { id, xs: data.steps[steps], ys, width: 1.5, ...look(id) };
  });
  const numbers = lines.flatMap(({ ys }) => ys.filter((value) => value !== null));
  if (!numbers.length) return emptyNote(`No run of this selection has written ${name}.`);
  const x = axisOf("step", [0, ...lines.flatMap(({ xs }) => [xs[0], xs.at(-1)])], { pad: 0.01 });
  const y = axisOf(name, numbers, { pad: 0.08 });
  const spots = lines.flatMap(({ id, xs, ys }, place) => {
    const own = ys.map((y, at) => ({ x: xs[at], y, run: id, line: place + 1 }));
    return own.filter((spot) => spot.y !== null);
  });
  const tell = ({ x, y, run, line }) => [
    `step ${x.toLocaleString("en")}: ${short(y, 5)}`,
    run,
    lines[line - 1].label,
  ];
  return chartView({ x, y, lines, spots, tell });
}

// Create the figure of the curves of a selection of the rows, each task on axes of its own;
// `show({ ids, words })` changes the selection.
function trainingView({ arms, rows }) {
  const armOf = new Map(rows.map(({ run, arm }) => [run, arm]).reverse());
  const names = namesOfCurves([...armOf.keys()]);
  const chosen = { ids: [], words: "", name: names[0] ?? "a training curve" };
  const look = (id) => {
    const colour = `color-mix(in srgb, ${colourOf(arms, armOf.get(id))} 70%, transparent)`;
    return { colour, label: lookOf(arms, armOf.get(id)).label };
  };
  const place = make("div");
  const words = make("span.faint");
  const show = (change) => {
    Object.assign(chosen, change);
    const every = Math.ceil(chosen.ids.length / MOST_CURVES);
    const drawn = chosen.ids.filter((_, place) => place % every === 0);
    const few = every > 1 ? ` ${drawn.length} of them are drawn, evenly chosen.` : "";
    words.textContent = chosen.words + few;
    const tasks = [...Map.groupBy(drawn, (id) => data.runs[id].task)];
    const panels = tasks.map(([task, ids]) => {
      const chart = trainingChart(ids, chosen.name, look);
      return make("div", tasks.length > 1 && make("p.name", task), chart);
    });
    place.className = tasks.length > 1 ? "figures" : "";
    place.replaceChildren(...(panels.length ? panels : [emptyNote("No run is chosen.")]));
  };
  const entries = names.map((key) => ({ key, words: key }));
  const of = names.length > 1 && choice("of", entries, (name) => show({ name }));
  const caption = make("figcaption", make("strong", "Training curves"), words, of);
  return { node: make("figure.curves", caption, place), show };
}
