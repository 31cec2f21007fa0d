// Scales: from a value to a place on the page, with ticks that can be read.

const LETTER = 6.4; // width of a letter on an axis, in pixels
const LOG_FROM = 10; // the largest over the smallest value, from which on a scale is logarithmic

// A scale for numbers, or, if any of the values is a word, with a place for each of them.
// `own`: the ticks stand at the values themselves, if these are few. `given` are those that decide
// whether it is logarithmic: an interval may reach far beyond all values.
function scaleOf(values, [start, end], { own = false, pad = 0.05, given = values } = {}) {
  if (values.some((value) => typeof value === "string")) return wordScale(values, start, end);
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  const [least, most] = [distinct[0], distinct.at(-1)];
  const log = Math.min(...given) > 0 && Math.max(...given) / Math.min(...given) >= LOG_FROM;
  const bend = log ? Math.log : (value) => value;
  const span = bend(most) - bend(least) || Math.abs(bend(most)) * 0.2 || 1;
  const low = bend(least) - span * pad;
  const high = bend(most) + span * pad;
  const at = (value) => start + ((bend(value) - low) / (high - low)) * (end - start);
  const unbend = log ? Math.exp : (value) => value;
  const across = end > start;
  const room = Math.abs(end - start) / (across ? 70 : 44);
  const wanted =
    own && distinct.length <= 10
      ? distinct
      : log
        ? logTicks(unbend(low), unbend(high), room)
        : niceTicks(low, high, room);
  return {
    at,
    log,
    ticks: apart(
      wanted.map((value) => ({ value, words: short(value) })),
      at,
      across,
    ),
  };
}

function wordScale(values, start, end) {
  const words = [...new Set(values.map(String))];
  const at = (value) =>
    start + ((words.indexOf(String(value)) + 0.5) / words.length) * (end - start);
  return {
    at,
    log: false,
    ticks: apart(
      words.map((word) => ({ value: word, words: word })),
      at,
      true,
    ),
  };
}

function niceTicks(low, high, room) {
  const rough = (high - low) / Math.max(2, room);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((times) => times * unit >= rough) * unit;
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, place) =>
    Number(((first + place) * step).toPrecision(12)),
  );
}

function logTicks(low, high, room) {
  const decades = Math.log10(high / low);
  if (decades < 1) return niceTicks(low, high, room);
  const every = Math.ceil(decades / Math.max(2, room));
  const times = decades / room < 0.4 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += every) {
    ticks.push(...times.map((digit) => digit * 10 ** power));
  }
  return ticks.filter((tick) => tick >= low && tick <= high);
}

// The ticks whose words do not run into the last one kept.
function apart(ticks, at, across) {
  let edge = -Infinity;
  return ticks.filter((tick) => {
    const half = across ? (tick.words.length * LETTER + 10) / 2 : 9;
    const place = across ? at(tick.value) : -at(tick.value);
    if (place - half < edge) return false;
    edge = place + half;
    return true;
  });
}

// The box that points are drawn in, with both axes, their ticks and their words around it.
function plot(width, height, xs, ys, { x, y, own, pad, given }) {
  const bottom = height - 46;
  const upward = scaleOf(ys, [bottom, 26], { pad: 0.08, given });
  const left = 18 + Math.max(...upward.ticks.map((tick) => tick.words.length)) * LETTER;
  const box = { left, right: width - 14, top: 24, bottom };
  const across = scaleOf(xs, [left, box.right], { own, pad });
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  const svg = shape("svg", { ...size, role: "img", "aria-label": `${y} over ${x}` });
  const scaled = (words, scale) => (scale.log ? `${words} (log)` : words);
  const middle = { x: (left + box.right) / 2, y: height - 8, "text-anchor": "middle" };
  svg.append(
    ...upward.ticks.flatMap((tick) => tickUpward(box, upward.at(tick.value), tick.words)),
    ...across.ticks.flatMap((tick) => tickAcross(box, across.at(tick.value), tick.words)),
    shape("line", { class: "axis", x1: left, x2: box.right, y1: bottom, y2: bottom }),
    shape("text", { class: "label", ...middle }, scaled(x, across)),
    shape("text", { class: "label", x: 0, y: 12 }, scaled(y, upward)),
  );
  return { svg, across: across.at, upward: upward.at, ...box };
}

function tickUpward({ left, right }, at, words) {
  const place = { x: left - 8, y: at + 4, "text-anchor": "end" };
  return [
    shape("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }),
    shape("text", { class: "tick", ...place }, words),
  ];
}

function tickAcross({ bottom }, at, words) {
  const place = { x: at, y: bottom + 19, "text-anchor": "middle" };
  return [
    shape("line", { class: "tick", x1: at, x2: at, y1: bottom, y2: bottom + 5 }),
    shape("text", { class: "tick", ...place }, words),
  ];
}
