// Draws the report of a sweep from the JSON in #data. All text of the data enters the document as
// text nodes, so that nothing in it becomes markup.

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
  const cell = (content) =>
    content instanceof Node ? content : make("td", { class: "number" }, content);
  const heads = head.map((words) => make("th", { scope: "col" }, words));
  return make(
    "div",
    { class: "scroll" },
    make(
      "table",
      attributes,
      caption && make("caption", null, caption),
      make("thead", null, make("tr", null, heads)),
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
  const curves = namesOfCurves([id]).map((name) =>
    chartView(curveHeight, () => trainingChart([id], name, accent, true)),
  );
  const text = (words) => make("pre", { tabindex: 0 }, words);
  const log = text(run.log?.join("\n"));
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
    Object.hasOwn(data.runs, run.parent ?? "") && part("Fine-tuned from", runButton(run.parent)),
    part("Attempts", attempts.length ? attempts : emptyNote("None yet.")),
    part("End of its log", run.log?.length ? log : emptyNote("It has written no log.")),
    part("Train it again", text(`python -m tasks.train outputs/runs/${id}`)),
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
    const words = cells.map((cell, place) => worded(keys[place], cell));
    const label = labels.get(cells[keys.indexOf("arm")]);
    return { cells, text: [...words, label].join(" ").toLowerCase() };
  });
  const body = make("tbody");
  const count = make("p", { class: "faint", "aria-live": "polite" });
  const filter = make("input", {
    type: "search",
    placeholder: "Filter: failed, heads=8, seed …",
    "aria-label": "Filter the runs",
    on: { input: () => show() },
  });
  const checkbox = (label, change) =>
    make("input", { type: "checkbox", "aria-label": label, on: { change } });
  const all = checkbox("Tick all rows that the filter leaves", () => {
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
    if (sorted !== null) found.sort((a, b) => compared(a.cells[sorted], b.cells[sorted], down));
    return found;
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
    const attributes = { "data-key": key, scope: "col", class: number && "number" };
    return make("th", attributes, button(words, sort));
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
    if (key === "point") {
      const open = () => openRun(at(row, "run"));
      return make("td", attributes, button(words || "one setting", open, { class: "link" }));
    }
    if (key === "arm") {
      const swatch = make("span", { class: "swatch", style: { color: colourOf(arms, value) } });
      return make("td", attributes, swatch, labels.get(value) ?? words);
    }
    return make("td", attributes, words);
  };
  const line = (row) => {
    if (row.node) return row.node;
    row.box = checkbox(`Choose ${at(row, "run")}`, () => {
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
  const way = down ? -1 : 1;
  if (typeof a === "number" && typeof b === "number") return way * (a - b);
  return way * String(a).localeCompare(String(b), "en", { numeric: true });
}

// An experiment

function answerWord(answer) {
  const words = answer[0].toUpperCase() + answer.slice(1);
  return make("strong", { class: `answer ${answer.replaceAll(" ", "-")}` }, words);
}

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
  const told = notes.map((note) => faint(note, "p"));
  const view = details(true, "As a table", blocks.map(block), told);
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
    const keys = columns.map(({ key }) => key);
    const [run, state] = [keys.indexOf("run"), keys.indexOf("state")];
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
  const reasons = waiting.map((id) => {
    const { state, reason } = data.runs[id];
    return [stateWord(state), " ", runButton(id), " ", reason];
  });
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
      const measures = same.map(({ measure }) => measure).join(", ");
      return make("div", null, answerWord(answer), answers.length > 1 && faint(` by ${measures}`));
    });
  };
  const items = data.experiments.flatMap(({ name, verdicts }) =>
    [...Map.groupBy(verdicts, ({ question }) => question)].map(([question, own]) => [
      make("div", null, answersTo(own)),
      make("div", null, question, " ", experimentLink(name)),
    ]),
  );
  if (!items.length) return emptyNote("These experiments make no claim.");
  return list(items, { class: "claims" });
}

function provenanceView(states) {
  const { commands, code, libraries, devices } = data.provenance;
  const runs = (count) => faint(`(${counted(count, "run")})`);
  const column = (words, ...content) => make("div", null, make("h3", null, words), content);
  const tallied = (entries) => list(entries.map(([word, count]) => [`${word} `, runs(count)]));
  const listed = (entries) => (entries.length ? tallied(entries) : "The records do not say.");
  const times = devices.map(({ device, kind, runs: count, hours: total }) => [
    `${hours(total)} on ${device} ${kind && `(${kind})`} `,
    runs(count),
  ]);
  const kinds = [...Map.groupBy(devices, ({ kind }) => kind || "other device")];
  const sum = (own) => own.reduce((total, one) => total + one.hours, 0);
  const totals = kinds.map(([kind, own]) => `${hours(sum(own))} on ${kind}s`);
  const unfinished = states.filter((state) => state !== "done").length;
  const without = `${counted(unfinished, "unfinished run")} not counted.`;
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
        unfinished > 0 && faint(`As finished runs report it; ${without}`, "p"),
      ),
      column("Program", listed(code)),
      column("Libraries", listed(libraries)),
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
    redrawAll();
  };
  toggle.addEventListener("click", () => {
    root.dataset.theme = toggle.textContent.toLowerCase();
    name();
  });
  darkSystem.addEventListener("change", name);
  let chosen = "";
  window.addEventListener("beforeprint", () => {
    chosen = root.dataset.theme ?? "";
    root.dataset.theme = "light";
    redrawAll(true);
  });
  window.addEventListener("afterprint", () => {
    root.dataset.theme = chosen;
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
    into("first", make("h2", null, first.title, " ", experimentLink(first.name)));
    into("first", figureView(figure, first.arms));
  }
  into("state", stateView(states));
  into("experiments", data.experiments.map(experimentView));
  into("provenance", provenanceView(states));
  openAddressed();
  window.addEventListener("hashchange", openAddressed);
}

followTheme();
showPage();
