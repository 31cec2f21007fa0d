// Charts of the page: uPlot draws axes and lines, this file describes them and draws the marks.

const LETTER = 6.6; // width of a letter on an axis, in pixels
const LOG_FROM = 10; // an axis is logarithmic from this ratio of its largest to its smallest value
const NEAR = 28; // pixels between the pointer and the spot that it selects

const tip = document.getElementById("tip");
const darkSystem = window.matchMedia("(prefers-color-scheme: dark)");

function showTip(lines, x, y) {
  const [first, ...others] = lines.filter(Boolean);
  tip.replaceChildren();
  fill(tip, make("strong", null, first), others.map((line) => make("div", null, line)));
  tip.hidden = false;
  (sheet.open ? sheet : document.body).append(tip); // a modal dialog covers the rest of the page
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(x + 14, document.documentElement.clientWidth - width - 8);
  const top = y + 18 + height > window.innerHeight ? y - height - 12 : y + 18;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

const hideTip = () => (tip.hidden = true);

// Resolve a CSS colour, with its variables, to one that a canvas understands.
const colours = new Map(); // of the theme that is shown
function resolved(colour) {
  if (!colours.has(colour)) {
    tip.style.setProperty("outline-color", colour);
    colours.set(colour, getComputedStyle(tip).outlineColor);
  }
  return colours.get(colour);
}

// Describe an axis through `values`: numbers, or words, which stand side by side. With `own`, ticks
// stand at the values. `given` are the values that decide whether the axis is logarithmic.
function axisOf(words, values, { own = false, pad = 0.05, given = values } = {}) {
  if (values.some((value) => typeof value === "string")) {
    const names = [...new Set(values.map(String))];
    const at = (value) => names.indexOf(String(value));
    const ticks = () => names.map((_, place) => place);
    const range = [-0.5, names.length - 0.5];
    return { words, log: false, range, at, ticks, format: (place) => names[place] };
  }
  const [least, most] = [smallest(values), largest(values)];
  const log = smallest(given) > 0 && largest(given) / smallest(given) >= LOG_FROM;
  const [bend, unbend] = log ? [Math.log, Math.exp] : [Number, Number];
  const span = bend(most) - bend(least) || Math.abs(bend(most)) * 0.2 || 1;
  const range = [unbend(bend(least) - span * pad), unbend(bend(most) + span * pad)];
  const distinct = own ? [...new Set(values)].sort((a, b) => a - b) : [];
  const few = distinct.length > 0 && distinct.length <= 10;
  const ticks = few ? () => distinct : log ? (room) => logTicks(...range, room) : null;
  return { words: log ? `${words} (log)` : words, log, range, at: Number, ticks, format: short };
}

const smallest = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

function logTicks(low, high, room) {
  const decades = Math.log10(high / low);
  const every = Math.ceil(decades / Math.max(2, room));
  const digits = decades / room < 0.4 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += every) {
    ticks.push(...digits.map((digit) => digit * 10 ** power));
  }
  return ticks.filter((tick) => tick >= low && tick <= high);
}

// Return uPlot's options for an axis; where words of ticks would overlap, the first stays.
function axisOptions(axis, across) {
  const spacing = across ? 70 : 44; // pixels
  const splits = (plot) => {
    const pixels = (across ? plot.bbox.width : plot.bbox.height) / uPlot.pxRatio;
    let edge = -Infinity;
    return axis.ticks(pixels / spacing).filter((tick) => {
      const half = across ? (axis.format(tick).length * LETTER + 10) / 2 : 9;
      const middle = across ? plot.valToPos(tick, "x") : -plot.valToPos(tick, "y");
      const free = middle - half >= edge;
      if (free) edge = middle + half;
      return free;
    });
  };
  const longest = (words) => largest((words ?? []).map((word) => word?.length ?? 0).concat(1));
  const line = { show: across, stroke: resolved("var(--faint)"), width: 1 };
  return {
    scale: across ? "x" : "y",
    stroke: resolved("var(--faint)"),
    font: `11px ${getComputedStyle(document.body).fontFamily}`,
    space: spacing,
    gap: across ? 4 : 8,
    size: across ? 26 : (_, words) => 12 + LETTER * longest(words),
    grid: { show: !across, stroke: resolved("var(--rule)"), width: 1 },
    ticks: { ...line, size: 5 },
    border: line,
    values: (_, ticks) => ticks.map((tick) => axis.format(tick)),
    ...(axis.ticks && { splits, filter: (_, ticks) => ticks }),
  };
}

// Create a chart that is drawn when it comes near the screen, and again when its width or the
// colours change. `describe(width)` returns what to draw:
//   x, y    the axes, of axisOf
//   lines   xs, ys, colour, width and perhaps alpha of each
//   paint   draws the rest: paint(context, across, upward, size); pixels count from the corner
//   spots   what a pointer selects: spots(across, upward) lists x, y, run, lines of text, highlight
//   single  the pointer selects by its x alone, and no run opens
function chartView(heightAt, describe) {
  let [width, near, plot, chart, chosen] = [0, false, null, null, null];
  const place = make("div", { class: "chart", tabindex: 0, role: "img" });
  const over = make("svg", { class: "chosen", "aria-hidden": "true" });
  let spots = null;
  const found = () => (spots ??= chart.spots?.(plot.across, plot.upward) ?? []);
  const choose = (spot, x, y) => {
    chosen = spot;
    over.replaceChildren(...(spot?.highlight(plot.across, plot.upward) ?? []));
    plot.over.classList.toggle("pointed", Boolean(spot?.run));
    if (!spot) return hideTip();
    const box = plot.over.getBoundingClientRect();
    showTip(spot.tell(), x ?? box.left + spot.x, y ?? box.top + spot.y);
  };
  const nearest = (event) => {
    const box = plot.over.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [best, least] = [null, chart.single ? Infinity : NEAR];
    for (const spot of found()) {
      const far = chart.single ? Math.abs(spot.x - x) : Math.hypot(spot.x - x, spot.y - y);
      if (far < least) [best, least] = [spot, far];
    }
    return best;
  };
  const open = (spot) => spot?.run && openRun(spot.run);
  const step = (by) => {
    const all = found();
    const next = chosen ? all.indexOf(chosen) + by : Math.min(by, 0);
    if (all.length) choose(all.at(next % all.length));
  };
  const keys = {
    ArrowRight: () => step(1),
    ArrowLeft: () => step(-1),
    Enter: () => open(chosen),
    Escape: () => choose(null),
  };
  place.addEventListener("keydown", ({ key }) => plot && keys[key]?.());
  place.addEventListener("blur", () => plot && choose(null));
  const draw = () => {
    plot?.destroy();
    [plot, spots, chosen] = [null, null, null];
    chart = describe(width);
    if (chart.empty) return place.replaceChildren(emptyNote(chart.empty));
    const { x, y, lines = [], paint } = chart;
    const body = make("div");
    const above = make("div", { class: "axis-words" }, y.words);
    place.replaceChildren(above, body, make("div", { class: "axis-words across" }, x.words));
    place.setAttribute("aria-label", `${y.words} over ${x.words}. Arrow keys select, Enter opens.`);
    const across = (value) => plot.valToPos(x.at(value), "x");
    const upward = (value) => plot.valToPos(value, "y");
    const paintRest = ({ ctx, bbox }) => {
      const ratio = uPlot.pxRatio;
      ctx.save();
      ctx.translate(bbox.left, bbox.top);
      ctx.scale(ratio, ratio);
      paint?.(ctx, across, upward, { width: bbox.width / ratio, height: bbox.height / ratio });
      ctx.restore();
    };
    const scale = ({ log, range }) => ({ time: false, distr: log ? 3 : 1, range: () => range });
    const facets = [{ scale: "x", auto: false }, { scale: "y", auto: false }];
    const points = { show: false };
    const options = {
      mode: 2, // each line has its own x values
      width,
      height: heightAt(width),
      padding: [8, 14, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { x: scale(x), y: scale(y) },
      axes: [axisOptions(x, true), axisOptions(y, false)],
      series: [
        {},
        { facets, points }, // uPlot needs one line at least
        ...lines.map(({ colour, width, alpha = 1 }) => {
          const look = { width, alpha, stroke: resolved(colour) };
          return { facets, points, paths: uPlot.paths.linear(), ...look };
        }),
      ],
      hooks: { draw: [paintRest] },
    };
    const values = lines.map(({ xs, ys }) => [xs.map(x.at), ys]);
    plot = new uPlot(options, [null, [[x.range[0]], [null]], ...values], body);
    Object.assign(plot, { across, upward });
    plot.over.append(over);
    plot.over.addEventListener("pointermove", (event) =>
      choose(nearest(event), event.clientX, event.clientY),
    );
    plot.over.addEventListener("pointerleave", () => choose(null));
    plot.over.addEventListener("click", (event) => open(nearest(event)));
  };
  const redraw = (always) => (near ||= always === true) && width > 0 && draw();
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now === width) return;
    width = now;
    place.style.minHeight = `${heightAt(width)}px`;
    redraw();
  }).observe(place);
  const observer = new IntersectionObserver(
    ([entry]) => {
      if (!entry.isIntersecting) return;
      observer.disconnect();
      if (!near) redraw(true);
    },
    { rootMargin: "600px" },
  );
  observer.observe(place);
  return Object.assign(place, { redraw, spots: () => (plot ? found() : []) });
}

function redrawAll(always) {
  colours.clear();
  for (const place of document.querySelectorAll(".chart")) place.redraw(always);
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
const BASELINE_MARK = "M0 0L1.2-.7V.7Z";
const LIGHTEST = 40; // per cent of an arm's colour in the first of its curves
const BASELINE_REACH = 3; // heights of the points; a baseline further off is told in words
const INTERVAL_REACH = 1.5; // heights of the points; a longer interval is cut

const lookOf = (arms, arm) =>
  arms.find((one) => one.name === arm) ?? { colour: 0, marker: 0, single: false, label: arm };
const colourOf = (arms, arm) => `var(--arm-${lookOf(arms, arm).colour})`;
const seedValues = (points) => points.flatMap(({ seeds }) => seeds.map(([, value]) => value));

// Return the keys that vary along a curve of an arm: the key of the axis, or else the arm's first
// key, and the keys that change together with it.
function keysAlong(points, axis) {
  const keys = Object.keys(points[0].settings);
  const first = keys.includes(axis) ? axis : keys[0];
  const count = (...of) =>
    new Set(points.map(({ settings }) => JSON.stringify(of.map((key) => settings[key])))).size;
  const together = (key) => count(first, key) === count(first) && count(first) === count(key);
  return keys.filter((key) => key === first || (count(key) > 1 && together(key)));
}

// Group points into curves: points of one arm that differ only in what varies along the curve.
function curvesOf({ points, labels }, arms, axis) {
  const curves = new Map();
  const along = new Map();
  for (const [arm, own] of Map.groupBy(points, (point) => point.arm)) {
    along.set(arm, keysAlong(own, axis));
  }
  for (const point of points.filter(({ x }) => x[axis] !== null)) {
    const apart = Object.keys(point.settings).filter((key) => !along.get(point.arm).includes(key));
    const words = apart.map((key) => `${labels[key]} ${point.settings[key]}`).join(", ");
    const key = JSON.stringify([point.arm, words]);
    if (!curves.has(key)) curves.set(key, { arm: point.arm, words, points: [] });
    curves.get(key).points.push(point);
  }
  for (const family of Map.groupBy(curves.values(), ({ arm }) => arm).values()) {
    family.forEach((curve, place) => {
      const look = lookOf(arms, curve.arm);
      const share = LIGHTEST + ((100 - LIGHTEST) * place) / (family.length - 1 || 1);
      const mixed = `color-mix(in srgb, ${colourOf(arms, curve.arm)} ${share}%, white)`;
      curve.colour = family.length > 1 ? mixed : colourOf(arms, curve.arm);
      curve.marker = MARKERS[(arms.length > 1 ? look.marker : place) % MARKERS.length];
      curve.hollow = look.single;
      curve.name = [(arms.length > 1 || !curve.words) && look.label, curve.words]
        .filter(Boolean)
        .join(": ");
      const order = (a, b) => (a > b ? 1 : a < b ? -1 : 0);
      curve.points.sort((a, b) => order(a.x[axis], b.x[axis]) || a.mean - b.mean);
    });
  }
  return [...curves.values()];
}

function drawMark(context, path, x, y, size, colour, hollow) {
  context.save();
  context.translate(x, y);
  context.scale(size, size);
  const paper = resolved("var(--paper)");
  context.fillStyle = hollow ? paper : colour;
  context.strokeStyle = hollow ? colour : paper;
  context.lineWidth = (hollow ? 1.6 : 1) / size;
  const shape = new Path2D(path);
  context.fill(shape);
  context.stroke(shape);
  context.restore();
}

function drawLine(context, colour, width, ...points) {
  [context.strokeStyle, context.lineWidth] = [colour, width];
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}

const clipped = (y, height) => (Number.isFinite(y) ? Math.min(Math.max(y, 0), height) : height);

function pointsChart(figure, curves, axis) {
  const points = curves.flatMap((curve) => curve.points);
  const values = seedValues(points);
  const baselines = nearBaselines(figure);
  const beside = baselines.map(({ value }) => value);
  const [low, high] = [smallest(values), largest(values)];
  const reach = (high - low) * INTERVAL_REACH || Math.abs(high) * 0.05;
  const floor = low > 0 ? Math.max(low - reach, low / 2) : low - reach;
  const ends = points.flatMap((point) => point.ends ?? []);
  const cut = ends.map((end) => Math.min(Math.max(end, floor), high + reach));
  const words = figure.across.find(({ key }) => key === axis).words;
  const x = axisOf(words, points.map((point) => point.x[axis]), { own: axis.startsWith("model.") });
  const given = [...values, ...beside];
  const y = axisOf(figure.words, [...given, ...cut], { pad: 0.08, given });
  const means = curves.filter(({ hollow }) => !hollow).map((curve) => ({
    xs: curve.points.map((point) => point.x[axis]),
    ys: curve.points.map(({ mean }) => mean),
    colour: curve.colour,
    width: 2,
  }));
  const paint = (context, across, upward, size) => {
    for (const curve of curves) {
      const colour = resolved(curve.colour);
      for (const point of curve.points) {
        const at = across(point.x[axis]);
        const ends = point.ends?.map((end) => [at, clipped(upward(end), size.height)]);
        context.globalAlpha = 0.7;
        if (ends) drawLine(context, colour, 1.2, ...ends);
        context.globalAlpha = 0.4;
        for (const [, value] of point.seeds) {
          drawMark(context, MARKERS[0], at, upward(value), 3, colour);
        }
        context.globalAlpha = 1;
        drawMark(context, curve.marker, at, upward(point.mean), 4, colour, curve.hollow);
      }
    }
    const faintColour = resolved("var(--faint)");
    for (const { value, hollow } of baselines) {
      const [x, y] = [size.width + 2, upward(value)];
      drawMark(context, BASELINE_MARK, x, y, hollow ? 8 : 6, faintColour, hollow);
    }
  };
  const spots = (across, upward) =>
    curves.flatMap((curve) =>
      curve.points.flatMap((point) =>
        point.seeds.map(([seed, value, run]) => {
          const at = { x: across(point.x[axis]), y: upward(value) };
          const tell = () => [
            `${figure.words} ${short(value, 5)}`,
            curve.name,
            `${point.name || "one setting"}, seed ${seed}`,
            point.seeds.length > 1 && `mean of ${point.seeds.length} seeds ${short(point.mean, 5)}`,
            run,
          ];
          const look = { class: "seed", d: MARKERS[0], style: { color: curve.colour } };
          const transform = `translate(${at.x} ${at.y}) scale(5)`;
          return { ...at, run, tell, highlight: () => [make("path", { ...look, transform })] };
        }),
      ),
    );
  return { x, y, lines: means, paint, spots };
}

function nearBaselines({ baselines, points }) {
  const values = seedValues(points);
  const [low, high] = [smallest(values), largest(values)];
  const reach = BASELINE_REACH * (high - low || Math.abs(high) * 0.1);
  return baselines.filter(({ value }) => value >= low - reach && value <= high + reach);
}

function legend(curves, baselines) {
  const mark = (d, size, x, hollow) => {
    const transform = `translate(${x} 6) scale(${size})`;
    return make("path", { class: hollow ? "mark hollow" : "mark", d, transform });
  };
  const entry = (words, color, ...marks) => {
    const size = { width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" };
    return make("li", { style: { color } }, make("svg", size, marks), make("span", null, words));
  };
  const line = () => make("line", { class: "mean", x1: 1, x2: 25, y1: 6, y2: 6 });
  return make(
    "ul",
    { class: "legend" },
    curves.map(({ name, colour, marker, hollow }) =>
      entry(name, colour, !hollow && line(), mark(marker, 4, 13, hollow)),
    ),
    baselines.map(({ words, value, hollow }) => {
      const shape = mark(BASELINE_MARK, hollow ? 8 : 6, 10, hollow);
      return entry(`${words} ${short(value)}`, "var(--faint)", shape);
    }),
  );
}

function figureView(figure, arms) {
  if (!figure.points.length)
    return emptyNote(`No finished run has a ${figure.words} yet. ${figure.missing}`);
  let axis = figure.across[0].key;
  const key = make("div");
  const height = (width) => Math.round(Math.min(360, Math.max(220, width * 0.5)));
  const place = chartView(height, () => pointsChart(figure, curvesOf(figure, arms, axis), axis));
  const show = (chosen) => {
    axis = chosen;
    key.replaceChildren(legend(curvesOf(figure, arms, axis), nearBaselines(figure)));
    place.redraw();
  };
  show(axis);
  const far = figure.baselines.filter((one) => !nearBaselines(figure).includes(one));
  const outside = far.map(({ words, value }) => `${words} ${short(value)}`).join(", ");
  const better = figure.better && `${figure.better === "lower" ? "Lower" : "Higher"} is better.`;
  const further = outside && `Outside the figure: ${outside}.`;
  const notes = [better, figure.marks, figure.missing, further].filter(Boolean).join(" ");
  const over = figure.across.length > 1 && choice("Over", figure.across, show);
  const caption = over && make("figcaption", null, over);
  return make("figure", null, caption, place, key, faint(notes, "p"));
}

// How the interval of each contrast closed, round by round, until it left zero or lay in the margin

function closingView(claims) {
  const figures = ({ contrasts, margin, unit }) =>
    contrasts.map(({ words, steps }) => {
      const place = chartView(() => 130, () => closingChart(words, steps, margin ?? [], unit));
      return make("figure", null, place);
    });
  const article = (claim) => {
    const words = [claim.claim, claim.measure].filter(Boolean).join(", ");
    const head = make("h4", null, words, ": ", answerWord(claim.answer));
    return make("article", null, head, make("div", { class: "closings" }, figures(claim)));
  };
  const how = faint("Above zero the claim is right; the band is the margin.", "p");
  const view = details(true, "How the intervals closed, round by round", how, claims.map(article));
  return make("div", { class: "closing" }, view);
}

function closingChart(words, steps, margin, unit) {
  const near = [0, ...steps.at(-1).filter((value) => value !== null), ...margin];
  const reach = (largest(near) - smallest(near) || 1) / 2;
  const heights = [smallest(near) - reach, largest(near) + reach];
  const linear = { pad: 0, given: [0] };
  const y = { ...axisOf(words, heights, linear), format: (value) => short(value) + unit };
  const rounds = steps.map((_, place) => place + 1);
  const x = { ...axisOf("round", [0.5, steps.length + 0.5], linear), ticks: () => rounds };
  const paint = (context, across, upward, { width, height }) => {
    const inside = (value) => clipped(upward(value), height);
    context.fillStyle = resolved("var(--band)");
    const [bottom, top] = margin.map(inside);
    if (margin.length) context.fillRect(0, top, width, bottom - top);
    context.setLineDash([5, 3]);
    drawLine(context, resolved("var(--faint)"), 1, [0, inside(0)], [width, inside(0)]);
    steps.forEach(([value, low, high], place) => {
      if (value === null) return;
      const at = across(place + 1);
      context.setLineDash(low === null && high === null ? [2, 4] : []);
      const ends = [low === null ? height : inside(low), high === null ? 0 : inside(high)];
      drawLine(context, resolved("var(--accent)"), 1.2, ...ends.map((end) => [at, end]));
      context.setLineDash([]);
      drawMark(context, MARKERS[0], at, inside(value), 3, resolved("var(--accent)"));
    });
  };
  return { x, y, paint };
}

// Training curves

const namesOfCurves = (ids) =>
  [...new Set(ids.flatMap((id) => Object.keys(data.runs[id].curves ?? {})))].sort();

// Describe the chart of one curve of each run; `look(id)` returns its colour and a word about it.
function trainingChart(ids, name, look, single = false) {
  const drawn = ids.filter((id) => data.runs[id].curves?.[name]);
  const lines = drawn.map((id) => {
    const [steps, values] = data.runs[id].curves[name];
    const width = single ? 1.6 : 1.3;
    return { id, xs: data.steps[steps], ys: values, ...look(id), width, alpha: single ? 1 : 0.6 };
  });
  const numbers = lines.flatMap(({ ys }) => ys.filter((value) => value !== null));
  if (!numbers.length) return { empty: `No run of this selection has written ${name}.` };
  const x = axisOf("step", [0, ...lines.flatMap(({ xs }) => [xs[0], xs.at(-1)])], { pad: 0.01 });
  const y = axisOf(name, numbers, { pad: 0.08 });
  const spots = (across, upward) =>
    lines.flatMap((line) => {
      const highlight = () => {
        if (single) return [];
        let pen = "M";
        const d = line.ys.map((value, place) => {
          const at = value !== null && `${pen}${across(line.xs[place])} ${upward(value)}`;
          pen = at ? "L" : "M";
          return at || "";
        });
        const path = { d: d.join(""), style: { color: line.colour } };
        return ["halo", "curve"].map((name) => make("path", { class: name, ...path }));
      };
      return line.ys.flatMap((value, place) => {
        if (value === null) return [];
        const step = line.xs[place];
        const where = `step ${step.toLocaleString("en")}: ${short(value, 5)}`;
        const tell = () => (single ? [where] : [line.id, where, line.label]);
        const at = { x: across(step), y: upward(value) };
        return [{ ...at, run: single ? null : line.id, tell, highlight }];
      });
    });
  return { x, y, lines, spots, single };
}

const curveHeight = (width) => Math.round(Math.min(330, Math.max(190, width * 0.45)));

// Create the figure of the curves of a selection, each task on axes of its own;
// `show(ids, words)` changes the selection.
function trainingView(arms, armOf) {
  let [ids, name] = [[], "train/loss"];
  const place = make("div");
  const caption = make("figcaption");
  const look = (id) => {
    const arm = armOf.get(id);
    return { colour: colourOf(arms, arm), label: lookOf(arms, arm).label };
  };
  const draw = () => {
    const tasks = [...Map.groupBy(ids, (id) => data.runs[id].task ?? "")];
    const panels = tasks.map(([task, own]) => {
      const head = tasks.length > 1 && make("p", { class: "name" }, task);
      return make("div", null, head, chartView(curveHeight, () => trainingChart(own, name, look)));
    });
    place.className = tasks.length > 1 ? "figures" : "";
    place.replaceChildren(...(panels.length ? panels : [emptyNote("No run is chosen.")]));
  };
  const show = (chosen, words) => {
    ids = chosen;
    const names = namesOfCurves(ids);
    const usual = names.includes("train/loss") ? "train/loss" : names[0];
    if (!names.includes(name)) name = usual ?? "train/loss";
    const sorted = [name, ...names.filter((other) => other !== name)];
    const entries = sorted.map((key) => ({ key, words: key }));
    const select = (key) => {
      name = key;
      draw();
    };
    const of = names.length > 1 && choice("of", entries, select);
    caption.replaceChildren(make("strong", null, "Training curves"), faint(words), of || "");
    draw();
  };
  return { node: make("figure", { class: "curves" }, caption, place), show };
}
