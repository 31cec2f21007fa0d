// Draws training curves as SVG. Each curve links to its run, and its tooltip names the run.

const MOST_CURVES = 500; // a figure shows the curves of at most this many runs, evenly chosen
// The y-axis is logarithmic if the largest value is at least this many times the smallest.
const LOG_FROM = 10;

const smallest = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

// Create an SVG element, as in draw("line", { y1: "50%" }, ...content).
function draw(kind, attributes, ...content) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return fill(node, content);
}

// Return at most six ticks from `low` to `high`: the multiples of a round step.
function roundTicks(low, high) {
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((digit) => digit * power >= rough);
  const first = Math.ceil(low / step);
  const length = Math.floor(high / step) - first + 1;
  return Array.from({ length }, (_, place) => (first + place) * step);
}

// Return the ticks of a logarithmic axis: powers of ten from `low` to `high`. If there are fewer
// than two, return `roundTicks` instead.
function logTicks(low, high) {
  const exponents = roundTicks(Math.log10(low), Math.log10(high)).filter(Number.isInteger);
  return exponents.length > 1 ? exponents.map((one) => 10 ** one) : roundTicks(low, high);
}

// Return the path data of a line through these [x, y] points. The line has gaps where y is null.
function pathOf(points) {
  const steps = points.map(([x, y], place) => {
    if (y === null) return "";
    const joined = place > 0 && points[place - 1][1] !== null;
    return joined ? `L${x} ${y}` : `M${x} ${y}h0`;
  });
  return steps.join("");
}

// Draw the curve `name`, such as "train/loss", of each run. `look(id)` returns the colour of a run
// and, optionally, a label for its tooltip.
function trainingChart(ids, name, look = () => ({ colour: "var(--accent)" })) {
  const curves = ids.filter((id) => data.runs[id].curves?.[name]).map((id) => {
    const [steps, values] = data.runs[id].curves[name];
    return { id, steps, values };
  });
  const numbers = curves.flatMap(({ values }) => values.filter((value) => value !== null));
  if (!numbers.length) return emptyNote(`None of the selected runs has logged ${name}.`);
  const [low, high] = [smallest(numbers), largest(numbers)];
  const last = largest(curves.map(({ steps }) => steps.at(-1)));
  const log = low > 0 && high / low >= LOG_FROM;
  const bend = log ? Math.log : Number;
  const span = bend(high) - bend(low) || 1;
  const across = (step) => (100 * step) / last;
  const upward = (value) => 100 - (100 * (bend(value) - bend(low))) / span;

  const rules = (log ? logTicks : roundTicks)(low, high).map((tick) => {
    const y = `${upward(tick)}%`;
    return [draw("line", { x2: "100%", y1: y, y2: y }), draw("text", { x: -8, y }, short(tick))];
  });
  const steps = roundTicks(0, last).map((tick) =>
    draw("text", { x: `${across(tick)}%`, y: "100%", dy: 18, class: "across" }, short(tick)),
  );
  const lines = curves.map(({ id, steps, values }) => {
    const { colour, label } = look(id);
    const points = values.map((y, place) => [across(steps[place]), y === null ? y : upward(y)]);
    const title = draw("title", {}, [id, label].filter(Boolean).join(": "));
    const link = draw("a", { href: runAddress(id), tabindex: -1 }, title);
    link.append(draw("path", { d: pathOf(points) }));
    link.style.color = colour;
    return link;
  });
  const plane = { viewBox: "0 0 100 100", preserveAspectRatio: "none", class: "plane" };
  const words = `${name}${log ? " (log)" : ""} over steps`;
  const label = { role: "img", "aria-label": `${words}; ${counted(curves.length, "run")}` };
  const chart = draw("svg", label, rules, steps, draw("svg", plane, lines));
  return make("div.chart", make("p.faint", words), chart);
}

const namesOfCurves = (ids) =>
  [...new Set(ids.flatMap((id) => Object.keys(data.runs[id].curves ?? {})))].sort();

// Create a figure with the training curves of selected runs, in one chart for each task. Call the
// returned `show({ ids, words })` to change the selection; `words` describes it.
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
    const few = every > 1 ? ` Only ${drawn.length} are drawn, evenly chosen.` : "";
    words.textContent = chosen.words + few;
    const tasks = [...Map.groupBy(drawn, (id) => data.runs[id].task)];
    const panels = tasks.map(([task, ids]) => {
      const chart = trainingChart(ids, chosen.name, look);
      return make("div", tasks.length > 1 && make("p.name", task), chart);
    });
    place.className = tasks.length > 1 ? "panels" : "";
    place.replaceChildren(...(panels.length ? panels : [emptyNote("No run is selected.")]));
  };
  const entries = names.map((key) => ({ key, words: key }));
  const of = names.length > 1 && choice("of", entries, (name) => show({ name }));
  const caption = make("figcaption", make("strong", "Training curves"), words, of);
  return { node: make("figure.curves", caption, place), show };
}
