// Draws the report of a sweep from the JSON in #data. All text of the data enters the document as
// text nodes, so that nothing in it becomes markup. uPlot draws axes and lines.

const data = JSON.parse(document.getElementById("data").textContent);

// Elements

const SVG_TAGS = ["svg", "path", "line"];

// Create an element. `on` holds listeners and `style` CSS properties; an attribute that is null or
// false is left out. Children are nodes, text or lists of them; empty ones are skipped.
function make(tag, attributes, ...children) {
  const node = SVG_TAGS.includes(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  const { on = {}, style = {}, ...rest } = attributes ?? {};
  for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
  for (const [key, value] of Object.entries(style)) node.style.setProperty(key, value);
  for (const [name, value] of Object.entries(rest)) {
    if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  return fill(node, children);
}

function fill(node, ...children) {
  const empty = [null, undefined, false, ""];
  node.append(...children.flat(Infinity).filter((child) => !empty.includes(child)));
  return node;
}

const faint = (words, tag = "span") => make(tag, { class: "faint" }, words);
const emptyNote = (words) => make("p", { class: "empty" }, words);
const button = (words, click, attributes) =>
  make("button", { type: "button", ...attributes, on: { click } }, words);
const runButton = (id) => button(id, () => openRun(id), { class: "link name" });
const list = (items, attributes) =>
  make("ul", attributes, items.map((item) => make("li", null, item)));
const details = (open, summary, ...content) =>
  make("details", { open }, make("summary", null, summary), content);

// Create a list of terms and their values; empty values are left out.
function terms(entries) {
  const told = entries.filter(([, value]) => ![null, undefined, ""].includes(value));
  const pairs = told.map(([name, value]) => [make("dt", null, name), make("dd", null, value)]);
  return make("dl", null, pairs);
}

// Create a table. A cell is text, or a td or th that is ready.
function table(attributes, caption, head, lines) {
  const cell = (content) => (content instanceof Node ? content : make("td", { class: "number" }, content));
  return make(
    "div",
    { class: "scroll" },
    make(
      "table",
      attributes,
      caption && make("caption", null, caption),
      make("thead", null, make("tr", null, head.map((words) => make("th", { scope: "col" }, words)))),
      make("tbody", null, lines.map((cells) => make("tr", null, cells.map(cell)))),
    ),
  );
}

// Create a drop-down; `choose` receives the key of the chosen entry.
function choice(words, entries, choose) {
  const options = entries.map(({ key, words: name }) => make("option", { value: key }, name));
  const select = make("select", { on: { change: () => choose(select.value) } }, options);
  return make("label", { class: "choice" }, `${words} `, select);
}

// The address of an experiment is its name, unless a part of the page has that id.
const RESERVED = new Set([...document.querySelectorAll("[id]")].map(({ id }) => id));
const anchorOf = (name) => (RESERVED.has(name) ? `experiment-${name}` : name);
const experimentLink = (name) =>
  make("a", { href: `#${encodeURIComponent(anchorOf(name))}` }, name);

// Numbers in words

const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

const signed = (text) => text.replace("-", "−");
const counted = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const hours = (value) =>
  value < 1 ? `${(60 * value).toFixed(1)} minutes` : `${value.toFixed(1)} hours`;

// Format as on the axes of the printed figures: 13.12M, 512, 0.25, 1e−7.
function short(value, digits = 4) {
  const size = Math.abs(value);
  if (size >= 10000) {
    const [unit, letter] = UNITS.find(([least]) => Number(size.toPrecision(digits)) >= least);
    return signed(`${Number((value / unit).toPrecision(digits))}${letter}`);
  }
  const plain = Number(value.toPrecision(digits));
  return signed(size > 0 && size < 1e-4 ? plain.toExponential() : String(plain));
}

function duration(seconds) {
  if (seconds < 60) return `${short(seconds, 3)} s`;
  if (seconds < 3600) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

// Format the cell of a column.
function worded(key, value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (key === "match_error") return signed(`${value > 0 ? "+" : ""}${(100 * value).toFixed(2)} %`);
  if (key === "seconds") return duration(value);
  const exact = key === "seed" || key === "steps" || key.startsWith("model.");
  return short(value, exact ? 6 : 5);
}

// Charts

const LETTER = 6.6; // width of a letter on an axis, in pixels
const LOG_FROM = 10; // an axis is logarithmic from this ratio of its largest to its smallest value
const NEAR = 28; // pixels between the pointer and the spot that it selects

const tip = document.getElementById("tip");
const darkSystem = window.matchMedia("(prefers-color-scheme: dark)");

function showTip(lines, x, y) {
  const parts = lines.filter(Boolean).map((line, place) => make(place ? "div" : "strong", null, line));
  tip.replaceChildren(...parts);
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
function resolved(colour) {
  tip.style.setProperty("outline-color", colour);
  return getComputedStyle(tip).outlineColor;
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

// Return uPlot's options for an axis; of ticks that would overlap the first is kept.
function axisOptions(axis, across) {
  const faintColour = resolved("var(--faint)");
  const rule = resolved("var(--rule)");
  const spacing = across ? 70 : 44;
  const splits = (plot) => {
    const key = across ? "x" : "y";
    let edge = -Infinity;
    return axis.ticks((across ? plot.bbox.width : plot.bbox.height) / uPlot.pxRatio / spacing).filter((tick) => {
      const half = across ? (axis.format(tick).length * LETTER + 10) / 2 : 9;
      const middle = plot.valToPos(tick, key) * (across ? 1 : -1);
      const free = middle - half >= edge;
      if (free) edge = middle + half;
      return free;
    });
  };
  return {
    scale: across ? "x" : "y",
    stroke: faintColour,
    font: `11px ${getComputedStyle(document.body).fontFamily}`,
    space: spacing,
    gap: across ? 4 : 8,
    size: across ? 26 : (_, labels) => 12 + LETTER * largest((labels ?? [""]).map((label) => (label ?? "").length)),
    grid: { show: !across, stroke: rule, width: 1 },
    ticks: { show: across, stroke: faintColour, width: 1, size: 5 },
    border: { show: across, stroke: faintColour, width: 1 },
    values: (_, ticks) => ticks.map((tick) => axis.format(tick)),
    ...(axis.ticks ? { splits, filter: (_, ticks) => ticks } : {}),
  };
}

// Create a chart that is drawn when it comes near the screen, and again when its width or the
// colours change. `describe(width)` returns what to draw:
//   x, y    the axes, of axisOf
//   lines   xs, ys, colour, width and alpha of each
//   paint   draws the rest: paint(context, across, upward, size); pixels count from the plot's corner
//   spots   what a pointer selects: spots(across, upward) lists x, y, run, lines of text, highlight
//   single  the pointer selects by its x alone, and no run opens
function chartView(heightAt, describe) {
  let [width, near, plot, chart, chosen] = [0, false, null, null, null];
  const place = make("div", { class: "chart", tabindex: 0, role: "img" });
  const over = make("svg", { class: "chosen", "aria-hidden": "true" });
  let spots = null;
  const found = () => (spots ??= chart.spots(plot.across, plot.upward));
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
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!plot || !(step || event.key === "Enter" || event.key === "Escape")) return;
    if (event.key === "Escape" && !chosen) return;
    event.preventDefault();
    if (event.key === "Enter") open(chosen);
    else if (!step) choose(null);
    else {
      const all = found();
      const next = chosen ? all.indexOf(chosen) + step : step > 0 ? 0 : -1;
      choose(all.at(next % all.length));
    }
  });
  place.addEventListener("blur", () => plot && choose(null));
  const draw = () => {
    plot?.destroy();
    [plot, spots, chosen] = [null, null, null];
    chart = describe(width);
    if (chart.empty) return place.replaceChildren(emptyNote(chart.empty));
    const { x, y, lines, paint } = chart;
    const height = heightAt(width);
    const scale = (axis) => ({ time: false, distr: axis.log ? 3 : 1, range: () => axis.range });
    const facets = [{ scale: "x", auto: false }, { scale: "y", auto: false }];
    const body = make("div");
    const above = make("div", { class: "axis-words" }, y.words);
    place.replaceChildren(above, body, make("div", { class: "axis-words across" }, x.words));
    place.setAttribute("aria-label", `${y.words} over ${x.words}. Arrow keys select, Enter opens.`);
    const options = {
      mode: 2,
      width,
      height,
      padding: [8, 14, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: { x: scale(x), y: scale(y) },
      axes: [axisOptions(x, true), axisOptions(y, false)],
      series: [
        {},
        ...lines.map((line) => ({
          facets,
          paths: uPlot.paths.linear(),
          points: { show: false },
          stroke: resolved(line.colour),
          width: line.width,
          alpha: line.alpha ?? 1,
        })),
      ],
      hooks: {
        draw: [
          (drawn) => {
            const context = drawn.ctx;
            context.save();
            context.translate(drawn.bbox.left, drawn.bbox.top);
            context.scale(uPlot.pxRatio, uPlot.pxRatio);
            const size = { width: drawn.bbox.width / uPlot.pxRatio, height: drawn.bbox.height / uPlot.pxRatio };
            paint?.(context, acrossOf(drawn), upwardOf(drawn), size);
            context.restore();
          },
        ],
      },
    };
    const acrossOf = (drawn) => (value) => drawn.valToPos(x.at(value), "x");
    const upwardOf = (drawn) => (value) => drawn.valToPos(value, "y");
    plot = new uPlot(options, [null, ...lines.map(({ xs, ys }) => [xs.map(x.at), ys])], body);
    [plot.across, plot.upward] = [acrossOf(plot), upwardOf(plot)];
    plot.over.append(over);
    plot.over.addEventListener("pointermove", (event) => choose(nearest(event), event.clientX, event.clientY));
    plot.over.addEventListener("pointerleave", () => choose(null));
    plot.over.addEventListener("click", (event) => open(nearest(event)));
    if (!chart.spots) chart.spots = () => [];
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

function redrawAll() {
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
  for (const [arm, own] of Map.groupBy(points, (point) => point.arm)) along.set(arm, keysAlong(own, axis));
  for (const point of points.filter(({ x }) => x[axis] !== null)) {
    const rest = Object.entries(point.settings).filter(([key]) => !along.get(point.arm).includes(key));
    const words = rest.map(([key, value]) => `${labels[key]} ${value}`).join(", ");
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
      curve.name = !curve.words ? look.label : arms.length > 1 ? `${look.label}: ${curve.words}` : curve.words;
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
  [context.fillStyle, context.strokeStyle] = hollow ? [resolved("var(--paper)"), colour] : [colour, resolved("var(--paper)")];
  context.lineWidth = (hollow ? 1.6 : 1) / size;
  context.fill(new Path2D(path));
  context.stroke(new Path2D(path));
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
  const y = axisOf(figure.words, [...values, ...cut, ...beside], { pad: 0.08, given: [...values, ...beside] });
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
        for (const [, value] of point.seeds) drawMark(context, MARKERS[0], at, upward(value), 3, colour);
        context.globalAlpha = 1;
        drawMark(context, curve.marker, at, upward(point.mean), 4, colour, curve.hollow);
      }
    }
    for (const { value, hollow } of baselines)
      drawMark(context, BASELINE_MARK, size.width + 2, upward(value), hollow ? 8 : 6, resolved("var(--faint)"), hollow);
  };
  const spots = (across, upward) =>
    curves.flatMap((curve) =>
      curve.points.flatMap((point) =>
        point.seeds.map(([seed, value, run]) => {
          const at = { x: across(point.x[axis]), y: upward(value) };
          const mean = `mean of ${point.seeds.length} seeds ${short(point.mean, 5)}`;
          const where = `${point.name || "one setting"}, seed ${seed}`;
          const tell = () => [`${figure.words} ${short(value, 5)}`, curve.name, where, point.seeds.length > 1 && mean, run];
          const transform = `translate(${at.x} ${at.y}) scale(5)`;
          const style = { color: curve.colour };
          const highlight = () => [make("path", { class: "seed", d: MARKERS[0], transform, style })];
          return { ...at, run, tell, highlight };
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
  const mark = (d, size, x, hollow) =>
    make("path", { class: hollow ? "mark hollow" : "mark", d, transform: `translate(${x} 6) scale(${size})` });
  const sketch = (...marks) =>
    make("svg", { width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" }, marks);
  const entry = (words, color, ...marks) =>
    make("li", { style: { color } }, sketch(marks), make("span", null, words));
  const line = () => make("line", { class: "mean", x1: 1, x2: 25, y1: 6, y2: 6 });
  return make(
    "ul",
    { class: "legend" },
    curves.map(({ name, colour, marker, hollow }) => entry(name, colour, hollow || line(), mark(marker, 4, 13, hollow))),
    baselines.map(({ words, value, hollow }) =>
      entry(`${words} ${short(value)}`, "var(--faint)", mark(BASELINE_MARK, hollow ? 8 : 6, 10, hollow)),
    ),
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
  const notes = [better, figure.marks, figure.missing, outside && `Outside the figure: ${outside}.`];
  const over = figure.across.length > 1 && choice("Over", figure.across, show);
  const caption = over && make("figcaption", null, over);
  return make("figure", null, caption, place, key, make("p", { class: "faint" }, notes.filter(Boolean).join(" ")));
}

// How the interval of each contrast closed, round by round, until it left zero or lay in the margin

function closingView(claims) {
  const figures = ({ contrasts, margin, unit }) =>
    contrasts.map(({ words, steps }) => {
      const place = chartView(() => 130, () => closingChart(words, steps, margin ?? [], unit));
      return make("figure", null, place);
    });
  const article = (claim) => {
    const head = [claim.claim, claim.measure ? `, ${claim.measure}: ` : ": ", answerWord(claim.answer)];
    return make("article", null, make("h4", null, head), make("div", { class: "closings" }, figures(claim)));
  };
  const how = "Above zero the claim is right; the band is the margin.";
  const summary = "How the intervals closed, round by round";
  return make("div", { class: "closing" }, details(true, summary, faint(how, "p"), claims.map(article)));
}

function closingChart(words, steps, margin, unit) {
  const near = [0, ...steps.at(-1).filter((value) => value !== null), ...margin];
  const reach = (largest(near) - smallest(near) || 1) / 2;
  const heights = [smallest(near) - reach, largest(near) + reach];
  const y = { ...axisOf(words, heights, { pad: 0, given: [0] }), format: (value) => short(value) + unit };
  const rounds = steps.map((_, place) => place + 1);
  const x = { ...axisOf("round", [0.5, steps.length + 0.5], { pad: 0, given: [0] }), ticks: () => rounds };
  const paint = (context, across, upward, { width, height }) => {
    const inside = (value) => clipped(upward(value), height);
    context.fillStyle = resolved("var(--band)");
    if (margin.length) context.fillRect(0, inside(margin[1]), width, inside(margin[0]) - inside(margin[1]));
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
  return { x, y, lines: [{ xs: rounds, ys: rounds.map(() => null), width: 0, colour: "#0000" }], paint };
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
        const pixels = line.ys.map((value, place) => value !== null && [across(line.xs[place]), upward(value)]);
        const d = pixels.map((at, place) => at && `${pixels[place - 1] ? "L" : "M"}${at.map((one) => one.toFixed(1)).join(" ")}`);
        const path = { d: d.filter(Boolean).join(""), style: { color: line.colour } };
        return single ? [] : [make("path", { class: "halo", ...path }), make("path", { class: "curve", ...path })];
      };
      return line.ys.flatMap((value, place) => {
        if (value === null) return [];
        const step = line.xs[place];
        const where = `step ${step.toLocaleString("en")}: ${short(value, 5)}`;
        const tell = () => (single ? [where] : [line.id, where, line.label]);
        return [{ x: across(step), y: upward(value), run: single ? null : line.id, tell, highlight }];
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
  const look = (id) => ({ colour: colourOf(arms, armOf.get(id)), label: lookOf(arms, armOf.get(id)).label });
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
    if (!names.includes(name)) name = names.includes("train/loss") ? "train/loss" : (names[0] ?? "train/loss");
    const entries = [name, ...names.filter((other) => other !== name)];
    const select = (key) => {
      name = key;
      draw();
    };
    const of = names.length > 1 && choice("of", entries.map((key) => ({ key, words: key })), select);
    caption.replaceChildren(make("strong", null, "Training curves"), faint(words), of || "");
    draw();
  };
  return { node: make("figure", { class: "curves" }, caption, place), show };
}

// A run

const sheet = document.getElementById("run");

const stateWord = (state) => make("span", { class: `state ${state}` }, state);
const settingsOf = (settings) =>
  Object.entries(settings).map(([key, value]) => [key, value === null ? "null" : String(value)]);
const numbersOf = (values) =>
  Object.entries(values).map(([key, value]) => [key.replaceAll("_", " "), worded(key, value)]);

function openRun(id) {
  if (!Object.hasOwn(data.runs, id)) return;
  hideTip();
  const head = [make("h2", { id: "run-name" }, id), button("Close", () => sheet.close())];
  sheet.replaceChildren(make("div", { class: "sheet-head" }, head));
  fill(sheet, runView(id, data.runs[id]));
  if (!sheet.open) sheet.showModal();
  sheet.scrollTop = 0;
  history.replaceState(null, "", `#run=${encodeURIComponent(id)}`);
}

sheet.addEventListener("close", () => {
  document.body.append(tip);
  hideTip();
  history.replaceState(null, "", location.pathname + location.search);
});
sheet.addEventListener("click", (event) => event.target === sheet && sheet.close());

// Open the run that the address names.
function openAddressed() {
  const asked = location.hash.match(/^#run=(.+)$/);
  if (asked) openRun(decodeURIComponent(asked[1]));
}

function runView(id, run) {
  const part = (words, ...content) => make("section", null, make("h3", null, words), content);
  const accent = () => ({ colour: "var(--accent)" });
  const curves = namesOfCurves([id]).map((name) => chartView(curveHeight, () => trainingChart([id], name, accent, true)));
  const attempts = run.attempts.map((attempt) => {
    const { hardware, versions, code } = data.environments[attempt.environment];
    const facts = Object.entries({ ...hardware, ...versions }).map((pair) => pair.join(" "));
    return terms([
      ["attempt", String(attempt.number)],
      ["started", attempt.started?.replace("T", " ").replace("+00:00", " UTC")],
      ["resumed at step", attempt.resumed_from ? attempt.resumed_from.toLocaleString("en") : null],
      ["ended", attempt.cause?.replaceAll("_", " ")],
      ["program", code],
      ["made with", facts.join(", ")],
    ]);
  });
  const shared = settingsOf(data.shared);
  return [
    make("p", null, stateWord(run.state), ` ${run.reason ?? ""}`),
    run.problem && make("p", { class: "problem" }, run.problem),
    part("Result", terms([...numbersOf(run.metrics), ...numbersOf(run.result)])),
    part("Training", curves.length ? curves : emptyNote("It has written no training curve.")),
    part("Settings", terms([...settingsOf(run.settings), ...numbersOf(run.sizes)])),
    shared.length > 0 && details(false, "Settings that all runs of this page share", terms(shared)),
    run.parent && Object.hasOwn(data.runs, run.parent) && part("Fine-tuned from", runButton(run.parent)),
    part("Attempts", attempts.length ? attempts : emptyNote("None yet.")),
    part(
      "End of its log",
      run.log?.length ? make("pre", { tabindex: 0 }, run.log.join("\n")) : emptyNote("It has written no log."),
    ),
    part("Train it again", make("pre", { tabindex: 0 }, `python -m tasks.train outputs/runs/${id}`)),
  ];
}

// The rows of an experiment

const MOST_ROWS = 500; // shown at once

// Create the table of runs: sorted by any column, filtered by words. `changed(ids, words)` receives
// the chosen runs: the ticked ones, or else all that the filter leaves.
function rowsView({ columns, rows: cellsOfRows, arms, alike }, changed) {
  const keys = columns.map(({ key }) => key);
  const at = (row, key) => row.cells[keys.indexOf(key)];
  const labels = new Map(arms.map(({ name, label }) => [name, label]));
  const ticked = new Set();
  let [sorted, down] = [null, false];
  const rows = cellsOfRows.map((cells) => {
    const words = [...cells.map((cell, place) => worded(keys[place], cell)), labels.get(cells[keys.indexOf("arm")])];
    return { cells, text: words.join(" ").toLowerCase() };
  });
  const body = make("tbody");
  const count = make("p", { class: "faint", "aria-live": "polite" });
  const input = (attributes, event, listener) => make("input", { ...attributes, on: { [event]: listener } });
  const hint = { placeholder: "Filter: failed, heads=8, seed …", "aria-label": "Filter the runs" };
  const filter = input({ type: "search", ...hint }, "input", () => show());
  const allLabel = "Tick all rows that the filter leaves";
  const all = input({ type: "checkbox", "aria-label": allLabel }, "change", () => {
    for (const row of left()) tick(row, all.checked);
    choose(left());
  });

  const tick = (row, on) => {
    if (on) ticked.add(row);
    else ticked.delete(row);
    if (row.box) row.box.checked = on;
  };
  const left = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = rows.filter(({ text }) => words.every((word) => text.includes(word)));
    return sorted === null ? found : found.sort((a, b) => compared(a.cells[sorted], b.cells[sorted], down));
  };
  const choose = (found) => {
    all.checked = found.length > 0 && found.every((row) => ticked.has(row));
    const ids = [...new Set((ticked.size ? [...ticked] : found).map((row) => at(row, "run")))];
    const why = ticked.size ? "those ticked" : "those the filter leaves; tick rows to choose";
    changed(ids, `${counted(ids.length, "run")}: ${why}`);
  };
  const show = () => {
    const found = left();
    body.replaceChildren(...found.slice(0, MOST_ROWS).map(line));
    heads.forEach((head, place) => {
      head.setAttribute("aria-sort", place !== sorted ? "none" : down ? "descending" : "ascending");
    });
    for (const chip of chips) chip.setAttribute("aria-pressed", chip.dataset.word === filter.value);
    const cut = `The first ${MOST_ROWS} are shown; the filter finds the others.`;
    const total = `${counted(found.length, "row")} of ${rows.length.toLocaleString("en")}.`;
    count.textContent = found.length > MOST_ROWS ? `${total} ${cut}` : total;
    choose(found);
  };
  const heads = columns.map(({ key, words }, place) => {
    const number = rows.some(({ cells }) => typeof cells[place] === "number");
    const sort = () => {
      [sorted, down] = [place, sorted === place && !down];
      show();
    };
    return make("th", { "data-key": key, scope: "col", class: number && "number" }, button(words, sort));
  });
  const chips = ["state", "task"].filter((key) => keys.includes(key)).flatMap((key) =>
    [...Map.groupBy(rows, (row) => String(at(row, key)))].map(([word, own]) => {
      const click = () => {
        filter.value = filter.value === word ? "" : word;
        show();
      };
      return button(`${word} ${own.length}`, click, { class: "chip", "data-word": word });
    }),
  );
  const cellView = (row, key, value) => {
    const words = worded(key, value);
    const attributes = { class: typeof value === "number" ? "number" : "words" };
    if (key === "run") return make("td", { class: "name" }, words);
    if (key === "state") return make("td", null, stateWord(words));
    if (key === "point")
      return make("td", attributes, button(words || "one setting", () => openRun(at(row, "run")), { class: "link" }));
    if (key === "arm") {
      const swatch = make("span", { class: "swatch", style: { color: colourOf(arms, value) } });
      return make("td", attributes, swatch, labels.get(value) ?? words);
    }
    return make("td", attributes, words);
  };
  const line = (row) => {
    if (row.node) return row.node;
    row.box = input({ type: "checkbox", "aria-label": `Choose ${at(row, "run")}` }, "change", () => {
      tick(row, row.box.checked);
      choose(left());
    });
    row.box.checked = ticked.has(row);
    const cells = row.cells.map((cell, place) => cellView(row, keys[place], cell));
    row.node = make("tr", null, make("td", null, row.box), cells);
    return row.node;
  };

  show();
  const head = make("thead", null, make("tr", null, make("th", { scope: "col" }, all), heads));
  const region = { class: "scroll", tabindex: 0, role: "region", "aria-label": "Runs" };
  const told = alike.map(([words, value]) => `${words} ${worded("", value)}`).join(", ");
  return make(
    "div",
    { class: "rows" },
    make("div", { class: "tools" }, filter, chips),
    count,
    make("div", region, make("table", null, head, body)),
    told && faint(`Alike in all rows: ${told}.`, "p"),
  );
}

// Order numbers by size and words by letters; empty cells stay last in both directions.
function compared(a, b, down) {
  const empty = (value) => value === null || value === undefined || value === "";
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  const numbers = typeof a === "number" && typeof b === "number";
  return (down ? -1 : 1) * (numbers ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
}

// An experiment

const answerWord = (answer) =>
  make("strong", { class: `answer ${answer.replaceAll(" ", "-")}` }, answer[0].toUpperCase() + answer.slice(1));

function experimentView(about) {
  const keys = about.columns.map(({ key }) => key);
  const [run, arm] = [keys.indexOf("run"), keys.indexOf("arm")];
  const armOf = new Map(about.rows.map((cells) => [cells[run], cells[arm]]).reverse());
  const curves = trainingView(about.arms, armOf);
  const setting = [
    about.scale && `${about.scale} scale`,
    about.text && `text: ${about.text}`,
    about.fixed.length && `with ${about.fixed.join(", ")}`,
  ];
  const verdict = ([question, answers]) =>
    make(
      "article",
      { class: "verdict" },
      make("h3", null, question),
      answers.map(({ answer, measure, sentence }) =>
        make("p", null, answerWord(answer), measure ? faint(` by ${measure}. `) : " ", sentence),
      ),
    );
  return make(
    "section",
    { id: anchorOf(about.name), class: "experiment" },
    make("p", { class: "name" }, about.name),
    make("h2", null, about.title),
    faint(setting.filter(Boolean).join("; "), "p"),
    make(
      "div",
      { class: about.figures.length > 1 && "figures" },
      about.figures.map((figure) => figureView(figure, about.arms)),
    ),
    about.notes.map((note) => faint(note, "p")),
    [...Map.groupBy(about.verdicts, ({ question }) => question)].map(verdict),
    about.closing.length > 0 && closingView(about.closing),
    about.paper_table && paperTableView(about.paper_table),
    make("h3", null, "Runs"),
    rowsView(about, curves.show),
    curves.node,
  );
}

function paperTableView({ blocks, notes }) {
  const rowHead = (words) => make("th", { scope: "row" }, words);
  const block = ({ title, head, lines }) =>
    table(null, title, head, lines.map(([first, ...cells]) => [rowHead(first), ...cells]));
  const view = details(true, "As a table", blocks.map(block), notes.map((note) => faint(note, "p")));
  return make("div", { class: "paper-table" }, view);
}

// The sweep as a whole

const STATES = ["done", "running", "interrupted", "failed", "new"];
const stateName = (state) => (state === "new" ? "not started" : state);
const MOST_OPEN = 12; // unfinished runs that are listed without a click

function tally(states) {
  const counts = STATES.map((state) => [state, states.filter((one) => one === state).length]);
  return counts.filter(([, count]) => count);
}

function stateInWords(states) {
  const counts = tally(states);
  const runs = counted(states.length, "run");
  if (counts.length === 1 && counts[0][0] === "done") return `All ${runs} are done.`;
  const words = counts.map(([state, count]) => `${count.toLocaleString("en")} ${stateName(state)}`);
  return `Of ${runs}, ${words.join(", ")}.`;
}

function stateView(states) {
  const counts = tally(states);
  const bar = (parts, of) => {
    const spans = parts.map(([state, count]) =>
      make("span", { class: state, style: { "--share": `${(100 * count) / of}%` } }),
    );
    return make("div", { class: "bar", "aria-hidden": "true" }, spans);
  };
  const line = ({ name, columns, rows }) => {
    const [run, state] = ["run", "state"].map((wanted) => columns.findIndex(({ key }) => key === wanted));
    const own = [...new Map(rows.map((cells) => [cells[run], cells[state]])).values()];
    const numbers = new Map(tally(own));
    const head = make("th", { scope: "row" }, experimentLink(name));
    const cells = counts.map(([word]) => String(numbers.get(word) ?? "–"));
    return [head, make("td", null, bar([...numbers], own.length)), ...cells];
  };
  const heads = ["experiment", "", ...counts.map(([state]) => stateName(state))];
  const ids = Object.keys(data.runs);
  const waiting = ["failed", "interrupted", "running"].flatMap((state) =>
    ids.filter((id) => data.runs[id].state === state),
  );
  const reasons = waiting.map((id) => [stateWord(data.runs[id].state), " ", runButton(id), " ", data.runs[id].reason]);
  return [
    make("p", { class: "lead" }, stateInWords(states)),
    bar(counts, states.length),
    table({ class: "tally" }, null, heads, data.experiments.map(line)),
    waiting.length > 0 &&
      details(
        waiting.length <= MOST_OPEN,
        `${counted(waiting.length, "run")} not done, and why`,
        list(reasons, { class: "waiting" }),
      ),
  ];
}

// List every question with its answers; measures that agree share one answer.
function claimsView() {
  const answersTo = (verdicts) => {
    const answers = [...Map.groupBy(verdicts, ({ answer }) => answer)];
    return answers.map(([answer, same]) => {
      const by = answers.length > 1 && faint(` by ${same.map(({ measure }) => measure).join(", ")}`);
      return make("div", null, answerWord(answer), by);
    });
  };
  const items = data.experiments.flatMap(({ name, verdicts }) =>
    [...Map.groupBy(verdicts, ({ question }) => question)].map(([question, own]) => [
      make("div", null, answersTo(own)),
      make("div", null, question, " ", experimentLink(name)),
    ]),
  );
  return items.length ? list(items, { class: "claims" }) : emptyNote("These experiments make no claim.");
}

function provenanceView(states) {
  const { commands, code, libraries, devices } = data.provenance;
  const runs = (count) => faint(`(${counted(count, "run")})`);
  const column = (words, ...content) => make("div", null, make("h3", null, words), content);
  const tallied = (entries) =>
    entries.length ? list(entries.map(([word, count]) => [`${word} `, runs(count)])) : "The records do not say.";
  const times = devices.map(({ device, kind, runs: count, hours: total }) => [
    `${hours(total)} on ${device} ${kind && `(${kind})`} `,
    runs(count),
  ]);
  const kinds = [...Map.groupBy(devices, ({ kind }) => kind || "other device")];
  const totals = kinds.map(([kind, own]) => `${hours(own.reduce((sum, one) => sum + one.hours, 0))} on ${kind}s`);
  const unfinished = states.filter((state) => state !== "done").length;
  const uncounted = `As finished runs report it; ${counted(unfinished, "unfinished run")} not counted.`;
  return [
    make("h3", null, "Commands"),
    commands.map(({ experiments, plan, scale, command }) => [
      faint(`${experiments.join(", ")}: plan ${plan}, ${scale} scale`, "p"),
      make("pre", { tabindex: 0 }, command),
    ]),
    make(
      "div",
      { class: "columns" },
      column(
        "Training time",
        times.length ? list(times) : "No finished run yet.",
        devices.length > 1 && make("p", { id: "hours" }, `In all ${totals.join(", ")}.`),
        unfinished > 0 && faint(uncounted, "p"),
      ),
      column("Program", tallied(code)),
      column("Libraries", tallied(libraries)),
    ),
  ];
}

// The theme follows the system until the reader chooses one; printing is always light.
function followTheme() {
  const root = document.documentElement;
  const toggle = document.getElementById("theme");
  const name = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : darkSystem.matches;
    toggle.textContent = dark ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Switch to ${dark ? "light" : "dark"} colours`);
    for (const place of document.querySelectorAll(".chart")) place.redraw();
  };
  toggle.addEventListener("click", () => {
    root.dataset.theme = toggle.textContent.toLowerCase();
    name();
  });
  darkSystem.addEventListener("change", name);
  let chosen = null;
  window.addEventListener("beforeprint", () => {
    chosen = root.dataset.theme;
    root.dataset.theme = "light";
    for (const place of document.querySelectorAll(".chart")) place.redraw(true);
  });
  window.addEventListener("afterprint", () => {
    if (chosen) root.dataset.theme = chosen;
    else delete root.dataset.theme;
    name();
  });
  name();
}

function showPage() {
  const into = (id, ...content) => fill(document.getElementById(id), content);
  const states = Object.values(data.runs).map(({ state }) => state);
  const first = data.experiments.find(({ figures }) => figures.some(({ points }) => points.length));
  document.title = `${data.experiments.map(({ name }) => name).join(", ")}: a sweep of Headroom`;
  const counts = `${counted(data.experiments.length, "experiment")}. ${stateInWords(states)} `;
  into("written", counts, faint(`Written ${data.written}.`));
  const parts = ["state", "provenance"].map((id) => make("a", { href: `#${id}` }, id));
  into("nav", data.experiments.map(({ name }) => experimentLink(name)), parts);
  into("claims", claimsView());
  if (first) {
    const figure = first.figures.find(({ points }) => points.length);
    into("first", make("h2", null, first.title, " ", experimentLink(first.name)), figureView(figure, first.arms));
  }
  into("state", stateView(states));
  into("experiments", data.experiments.map(experimentView));
  into("provenance", provenanceView(states));
  openAddressed();
  window.addEventListener("hashchange", openAddressed);
}

followTheme();
showPage();
