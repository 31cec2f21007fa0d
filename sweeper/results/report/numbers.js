// Numbers in words.

const UNITS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

// 13.12M, 512, 0.25: as on the axes of the printed figures.
function short(value, digits = 4) {
  const size = Math.abs(value);
  if (size >= 10000) {
    const [unit, letter] = UNITS.find(([least]) => Number(size.toPrecision(digits)) >= least);
    return signed(`${Number((value / unit).toPrecision(digits))}${letter}`);
  }
  const plain = Number(value.toPrecision(digits));
  const tiny = size > 0 && size < 1e-4;
  return signed(tiny ? plain.toExponential() : String(plain));
}

function signed(text) {
  return text.replace("-", "−");
}

function percent(share) {
  return signed(`${share > 0 ? "+" : ""}${(100 * share).toFixed(2)} %`);
}

function duration(seconds) {
  if (seconds < 60) return `${short(seconds, 3)} s`;
  if (seconds < 3600) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

function hours(value) {
  return value < 1 ? `${(60 * value).toFixed(1)} minutes` : `${value.toFixed(1)} hours`;
}

function counted(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

// A cell of a table in words.
function worded(key, value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (key === "match_error") return percent(value);
  if (key === "seconds") return duration(value);
  if (key === "seed" || key === "steps" || key.startsWith("model.")) return short(value, 6);
  return short(value, 5);
}
