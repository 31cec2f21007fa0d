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

function hue(arms, arm) {
  const place = arms.findIndex((one) => one.name === arm);
  return `var(--arm-${Math.max(0, place) % 7})`;
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
function seriesOf(points, arms, across) {
  const groups = new Map();
  const keys = new Map();
  for (const { arm } of points)
    if (!keys.has(arm)) keys.set(arm, along(points.filter((one) => one.arm === arm), across));
  for (const point of points) {
    if (point.x[across] === null) continue;
    const rest = Object.entries(point.settings).filter(([key]) => !keys.get(point.arm).includes(key));
    const words = rest.map(([key, value]) => `${key.split(".").at(-1)}=${value}`).join(", ");
    const key = JSON.stringify([point.arm, words]);
    if (!groups.has(key)) groups.set(key, { arm: point.arm, words, points: [] });
    groups.get(key).points.push(point);
  }
  const series = [...groups.values()];
  const order = (a, b) =>
    a.x[across] > b.x[across] ? 1 : a.x[across] < b.x[across] ? -1 : a.mean - b.mean;
  for (const one of series) {
    const family = series.filter((other) => other.arm === one.arm);
    const share = family.length === 1 ? 100 : 45 + (55 * family.indexOf(one)) / (family.length - 1);
    const place = arms.findIndex((arm) => arm.name === one.arm);
    one.points.sort(order);
    one.colour = `color-mix(in oklab, ${hue(arms, one.arm)} ${share}%, var(--paper))`;
    one.marker = MARKERS[Math.max(0, place) % MARKERS.length];
    one.hollow = one.points.every((point) => point.matched);
    const label = arms[place]?.label ?? one.arm;
    one.name = !one.words ? label : arms.length > 1 ? `${label}: ${one.words}` : one.words;
  }
  return series;
}

function marker(one, given) {
  return shape("path", { class: one.hollow ? "mark hollow" : "mark", d: one.marker, ...given });
}

function legend(series) {
  return element(
    "ul",
    { class: "legend" },
    series.map((one) =>
      element(
        "li",
        { style: { color: one.colour } },
        shape(
          "svg",
          { width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" },
          one.hollow ? null : shape("line", { class: "mean", x1: 1, x2: 25, y1: 6, y2: 6 }),
          marker(one, { transform: "translate(13 6) scale(4)" }),
        ),
        element("span", null, one.name),
      ),
    ),
  );
}
