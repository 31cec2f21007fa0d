// Points that belong together, and how they look: as in the printed figures.

// Of radius 1: circle, square, triangle, diamond, ...
const MARKERS = [
  "M-1 0A1 1 0 1 0 1 0A1 1 0 1 0 -1 0Z",
  "M-.9-.9H.9V.9H-.9Z",
  "M0-1.15L1.1.85H-1.1Z",
  "M0-1.3L1.1 0L0 1.3L-1.1 0Z",
  "M0 1.15L1.1-.85H-1.1Z",
  "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
  "M-1-1L1 1M1-1L-1 1",
];

const LIGHTEST = 40; // per cent of an arm's colour, in the first of its curves

function lookOf(arms, arm) {
  return arms.find((one) => one.name === arm) ?? { colour: 0, marker: 0, single: false };
}

function hue(arms, arm) {
  return `var(--arm-${lookOf(arms, arm).colour})`;
}

// The keys that go along a curve of an arm: what is drawn across where its points vary it, else
// their first, and whatever key moves together with it.
function along(points, across) {
  const keys = Object.keys(points[0].settings);
  const first = keys.includes(across) ? across : keys[0];
  const values = (...of) => points.map(({ settings }) => JSON.stringify(of.map((k) => settings[k])));
  const count = (...of) => new Set(values(...of)).size;
  const together = (key) => count(first, key) === count(first) && count(first, key) === count(key);
  return keys.filter((key) => key === first || (count(key) > 1 && together(key)));
}

// Points that belong together: of one arm, and alike in all but what goes along the curve.
function seriesOf({ points, labels }, arms, across) {
  const groups = new Map();
  const keys = new Map();
  for (const { arm } of points)
    if (!keys.has(arm)) keys.set(arm, along(points.filter((one) => one.arm === arm), across));
  for (const point of points) {
    if (point.x[across] === null) continue;
    const rest = Object.entries(point.settings).filter(([key]) => !keys.get(point.arm).includes(key));
    const words = rest.map(([key, value]) => `${labels[key]} ${value}`).join(", ");
    const key = JSON.stringify([point.arm, words]);
    if (!groups.has(key)) groups.set(key, { arm: point.arm, words, points: [] });
    groups.get(key).points.push(point);
  }
  const series = [...groups.values()];
  const order = (a, b) =>
    a.x[across] > b.x[across] ? 1 : a.x[across] < b.x[across] ? -1 : a.mean - b.mean;
  for (const one of series) {
    const family = series.filter((other) => other.arm === one.arm);
    const place = family.indexOf(one);
    const share = family.length > 1 ? LIGHTEST + ((100 - LIGHTEST) * place) / (family.length - 1) : 100;
    const look = lookOf(arms, one.arm);
    one.points.sort(order);
    one.colour = `color-mix(in srgb, ${hue(arms, one.arm)} ${share}%, white)`;
    one.marker = MARKERS[(arms.length > 1 ? look.marker : place) % MARKERS.length];
    one.hollow = look.single;
    const label = look.label ?? one.arm;
    one.name = !one.words ? label : arms.length > 1 ? `${label}: ${one.words}` : one.words;
  }
  return series;
}

function marker(one, given) {
  return shape("path", { class: one.hollow ? "mark hollow" : "mark", d: one.marker, ...given });
}

// `baselines` are marked at the right edge: the first of them hollow and large.
function legend(series, baselines) {
  const entry = (words, colour, ...drawn) =>
    element(
      "li",
      { style: { color: colour } },
      shape("svg", { width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" }, drawn),
      element("span", null, words),
    );
  return element(
    "ul",
    { class: "legend" },
    series.map((one) =>
      entry(
        one.name,
        one.colour,
        one.hollow ? null : shape("line", { class: "mean", x1: 1, x2: 25, y1: 6, y2: 6 }),
        marker(one, { transform: "translate(13 6) scale(4)" }),
      ),
    ),
    baselines.map((one) =>
      entry(`${one.words} ${short(one.value)}`, "var(--faint)", baselineMark(one, 10, 6)),
    ),
  );
}

function baselineMark({ hollow }, x, y) {
  const transform = `translate(${x} ${y}) scale(${hollow ? 8 : 6})`;
  return shape("path", { class: hollow ? "mark hollow" : "mark", d: "M0 0L1.2-.7V.7Z", transform });
}
