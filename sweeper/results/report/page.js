// Draws the report of a sweep from the JSON in #data. Strings of the data enter the document only
// as text nodes, so they cannot become markup.

let data = null; // set by `showPage`

// Elements

// Create an element: make("p.faint", { id: "hours" }, "text"). The properties are optional.
function make(kind, ...content) {
  const [tag, ...classes] = kind.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  if (content[0]?.constructor === Object) Object.assign(node, content.shift());
  return fill(node, content);
}

// Append nodes, strings and nested lists of them to a node. Empty strings and nulls are skipped.
function fill(node, ...children) {
  node.append(...children.flat(Infinity).filter(Boolean));
  return node;
}

const emptyNote = (words) => make("p.empty", words);
const faint = (words) => make("span.faint", words);
const runAddress = (id) => `#run=${encodeURIComponent(id)}`;
const runLink = (id) => make("a.name", { href: runAddress(id) }, id);
const list = (items) => make("ul", items.map((item) => make("li", item)));
const pre = (words) => make("pre", { tabIndex: 0 }, words);
const details = (open, summary, ...content) =>
  make("details", { open }, make("summary", summary), content);
const stateWord = (state) => make(`span.state.${state}`, state);

const part = (words, ...content) => make("section", make("h3", words), content);

// Create a description list of [name, value] pairs, without empty values. Long names may break
// after a dot or an underscore.
function terms(entries) {
  const known = entries.filter(([, value]) => (value ?? "") !== "");
  return make("dl", known.map(([name, value]) => [make("dt", inParts(name)), make("dd", value)]));
}
const inParts = (key) => key.split(/(?<=[._])/).flatMap((part) => [part, make("wbr")]);

// Create a table with an optional title. The first cell of each row is the row's header.
function table({ title, head, lines }) {
  const line = ([first, ...cells]) =>
    make("tr", make("th", { scope: "row" }, first), cells.map((cell) => make("td.number", cell)));
  const heads = head.map((words) => make("th", { scope: "col" }, words));
  const above = title && make("caption", title);
  const parts = [make("thead", make("tr", heads)), make("tbody", lines.map(line))];
  return make("div.scroll", make("table", above, parts));
}

// Create a drop-down list. It calls `choose` with the key of the chosen entry.
function choice(words, entries, choose) {
  const options = entries.map(({ key, words: name }) => make("option", { value: key }, name));
  const select = make("select", { onchange: () => choose(select.value) }, options);
  return make("label.choice", `${words} `, select);
}

// The anchor of an experiment is its name, unless an element of page.html has this id.
const RESERVED = new Set([...document.querySelectorAll("[id]")].map(({ id }) => id));
const anchorOf = (name) => (RESERVED.has(name) ? `experiment-${name}` : name);
const experimentLink = (name) =>
  make("a", { href: `#${encodeURIComponent(anchorOf(name))}` }, name);

// Numbers in words

const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

const signed = (text) => text.replace("-", "−");
const counted = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

// Format a number as on the axes of figures: 13.12M, 512, 0.25, 1e−7.
function short(value, digits = 4) {
  const size = Number(Math.abs(value).toPrecision(digits));
  if (size >= 10000) {
    const [unit, letter] = UNITS.find(([least]) => size >= least);
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

// Format `value` as a cell of the column `key`.
function worded(key, value) {
  if (typeof value !== "number") return String(value ?? "");
  if (key === "match_error") return signed(`${value > 0 ? "+" : ""}${(100 * value).toFixed(2)} %`);
  if (key === "seconds") return duration(value);
  // Do not round these: different seeds could look equal.
  const exact = key === "seed" || key === "steps" || key.startsWith("model.");
  return exact ? signed(String(value)) : short(value, 5);
}

// A run

const sheet = document.getElementById("run");

const settingsOf = (values) =>
  terms(Object.entries(values).map(([key, v]) => [key, String(v)]));
const numbersOf = (values) =>
  terms(Object.entries(values).map(([key, v]) => [key.replaceAll("_", " "), worded(key, v)]));

// Open the dialog of the run that the address names, as in #run=<id>, or close the dialog.
function openAddressed() {
  const id = decodeURIComponent(location.hash.match(/^#run=(.+)$/)?.[1] ?? "");
  if (!Object.hasOwn(data.runs, id)) return sheet.close();
  const close = make("button", { onclick: () => sheet.close() }, "Close");
  sheet.replaceChildren(make("div.sheet-head", make("h2", { id: "run-name" }, id), close));
  fill(sheet, runView(id, data.runs[id]));
  if (!sheet.open) sheet.showModal();
  sheet.scrollTop = 0;
}

window.addEventListener("hashchange", openAddressed);
sheet.addEventListener("click", (event) => event.target === sheet && sheet.close());
sheet.addEventListener("close", () => {
  if (location.hash.startsWith("#run=")) history.replaceState(null, "", location.pathname);
});

function runView(id, run) {
  const curves = namesOfCurves([id]).map((name) => trainingChart([id], name));
  const attempts = run.attempts.map((attempt) => {
    const { hardware, versions, code } = attempt;
    const facts = Object.entries({ ...hardware, ...versions }).map((pair) => pair.join(" "));
    return terms([
      ["attempt", attempt.number],
      ["started", attempt.started?.replace("T", " ").replace("+00:00", " UTC")],
      ["resumed at step", (attempt.resumed_from || "").toLocaleString("en")],
      ["ended", attempt.cause?.replaceAll("_", " ")],
      ["program", code],
      ["trained with", facts.join(", ")],
    ]);
  });
  const log = run.log?.length ? pre(run.log.join("\n")) : emptyNote("This run has no log.");
  return [
    make("p", stateWord(run.state), ` ${run.reason ?? ""}`),
    run.problem && make("p.problem", run.problem),
    part("Result", numbersOf({ ...run.metrics, ...run.result })),
    part("Training", curves.length ? curves : emptyNote("This run has no training curve.")),
    part("Settings", settingsOf(run.settings), numbersOf(run.sizes)),
    Object.hasOwn(data.runs, run.parent ?? "") && part("Fine-tuned from", runLink(run.parent)),
    part("Attempts", attempts.length ? attempts : emptyNote("None yet.")),
    part("End of the log", log),
    part("Train it again", pre(`${data.train} outputs/runs/${id}`)),
  ];
}

// The rows of an experiment

const MOST_ROWS = 500; // the table shows at most this many

// Create the table of runs. Readers can sort it by any column and filter it by words. After each
// change, it calls `changed({ ids, words })` with the runs that match the filter.
function rowsView({ columns, rows, arms, alike }, changed) {
  let [found, sorted, down] = [rows, null, false];
  const body = make("tbody");
  const count = make("p.faint", { ariaLive: "polite" });
  const filter = make("input", {
    type: "search",
    placeholder: "Filter: failed, heads=8, seed …",
    ariaLabel: "Filter the runs",
    oninput: () => show(),
  });
  const matches = (row) => {
    const words = columns.map(({ key }) => worded(key, row[key]));
    const text = [...words, lookOf(arms, row.arm).label].join(" ").toLowerCase();
    return filter.value.toLowerCase().split(/\s+/).every((word) => text.includes(word));
  };
  const show = () => {
    found = rows.filter(matches);
    if (sorted) found.sort((a, b) => compared(a[sorted], b[sorted], down));
    body.replaceChildren(...found.slice(0, MOST_ROWS).map(line));
    const direction = down ? "descending" : "ascending";
    for (const head of heads) {
      head.ariaSort = head.firstChild.value === sorted ? direction : "none";
    }
    for (const chip of chips) chip.ariaPressed = chip.value === filter.value;
    const cut = `The first ${MOST_ROWS} are shown; filter to find others.`;
    const total = `${counted(found.length, "row")} of ${rows.length.toLocaleString("en")}.`;
    count.textContent = found.length > MOST_ROWS ? `${total} ${cut}` : total;
    const ids = [...new Set(found.map(({ run }) => run))];
    changed({ ids, words: `${counted(ids.length, "run")} matching the filter.` });
  };
  const heads = columns.map(({ key, words }) => {
    const onclick = () => {
      [sorted, down] = [key, sorted === key && !down];
      show();
    };
    const kind = rows.some((row) => typeof row[key] === "number") ? "th.number" : "th";
    return make(kind, { scope: "col" }, make("button", { value: key, onclick }, words));
  });
  const chip = ([value, own]) => {
    const onclick = () => {
      filter.value = filter.value === value ? "" : value;
      show();
    };
    return make("button.chip", { value, onclick }, `${value} ${own.length}`);
  };
  const groups = ["state", "task"].flatMap((key) => [...Map.groupBy(rows, (row) => row[key])]);
  const chips = groups.filter(([word]) => word).map(chip);
  const views = {
    run: ({ run }) => make("span.name", run),
    state: ({ state }) => stateWord(state),
    point: ({ run, point }) => make("a", { href: runAddress(run) }, point || "one setting"),
    arm: ({ arm }) => [
      make("span.swatch", { style: `color: ${colourOf(arms, arm)}` }),
      lookOf(arms, arm).label,
    ],
  };
  const line = (row) => {
    const cells = columns.map(({ key }) => {
      const kind = typeof row[key] === "number" ? "td.number" : "td";
      return make(kind, Object.hasOwn(views, key) ? views[key](row) : worded(key, row[key]));
    });
    return make("tr", cells);
  };
  show();
  const region = { tabIndex: 0, role: "region", ariaLabel: "Runs" };
  const same = alike.map(([words, value]) => `${words} ${worded("", value)}`).join(", ");
  return make(
    "div.rows",
    make("div.tools", filter, chips),
    count,
    make("div.scroll", region, make("table", make("thead", make("tr", heads)), body)),
    same && make("p.faint", `Equal in all rows: ${same}.`),
  );
}

// Compare two cells for sorting: numbers by size, strings alphabetically. Empty cells come last,
// whether sorted up or down.
function compared(a, b, down = false) {
  const empty = (value) => (value ?? "") === "";
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  const way = down ? -1 : 1;
  if (typeof a === "number" && typeof b === "number") return way * (a - b);
  return way * String(a).localeCompare(String(b), "en", { numeric: true });
}

// An experiment

const lookOf = (arms, arm) => arms.find(({ name }) => name === arm);
const colourOf = (arms, arm) => `var(--arm-${lookOf(arms, arm).colour})`;

function answerWord(answer) {
  const words = answer[0].toUpperCase() + answer.slice(1);
  return make(`strong.answer.${answer.replaceAll(" ", "-")}`, words);
}

const POINT = 1.5; // pixels on the page per point of the printed figure

// Create an image of an experiment's figure, which matplotlib drew, on a white card.
function figureView({ name, figure_in_words: alt }) {
  if (!Object.hasOwn(data.figures, name)) return emptyNote("The figure is not drawn yet.");
  const svg = data.figures[name];
  const width = POINT * svg.match(/ width="([\d.]+)pt"/)[1];
  const src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  return make("figure.card", make("img", { src, alt, width }));
}

function experimentView(about) {
  const curves = trainingView(about);
  const claim = ([question, answers]) => [
    make("h3", question),
    answers.map(({ answer, measure, effect, sentence }) => [
      make("p", answerWord(answer), answers.length > 1 && faint(` by ${measure}`)),
      effect
        ? [make("p.effect", effect), details(false, "Why", make("p", sentence))]
        : make("p", sentence),
    ]),
  ];
  const figure = figureView(about);
  const claims = [...Map.groupBy(about.verdicts, ({ question }) => question)].map(claim);
  return make(
    "section.experiment",
    { id: anchorOf(about.name) },
    make("p.name", about.name),
    make("h2", about.title),
    make("p.faint", about.setting),
    make("div.beside", figure, claims.length > 0 && make("div.claims", list(claims))),
    about.paper_table && paperTableView(about.paper_table),
    make("h3", "Runs"),
    rowsView(about, curves.show),
    curves.node,
  );
}

function paperTableView({ blocks, notes }) {
  const view = ({ title, rows: [head, ...lines] }) => table({ title, head, lines });
  return details(false, "As a table", blocks.map(view), notes.map((note) => make("p.faint", note)));
}

// The sweep as a whole

const STATES = ["done", "running", "interrupted", "failed", "new"];
const stateName = (state) => (state === "new" ? "not started" : state);
const MOST_OPEN = 12; // a longer list of unfinished runs is folded

// Group runs by state, in the order of STATES.
function byState(ids) {
  const groups = STATES.map((state) => [state, ids.filter((id) => data.runs[id].state === state)]);
  return new Map(groups.filter(([, own]) => own.length));
}

function stateInWords(ids) {
  const groups = byState(ids);
  const runs = counted(ids.length, "run");
  if (groups.size === 1 && groups.has("done")) return `All ${runs} are done.`;
  const count = ([state, own]) => `${own.length.toLocaleString("en")} ${stateName(state)}`;
  return `Of ${runs}, ${[...groups].map(count).join(", ")}.`;
}

function stateView(ids) {
  const bar = (groups) => {
    const part = ([state, own]) => make(`span.${state}`, { style: `flex-grow: ${own.length}` });
    return make("div.bar", { ariaHidden: "true" }, [...groups].map(part));
  };
  const groups = byState(ids);
  const states = [...groups.keys()];
  const line = ({ name, rows }) => {
    const own = byState([...new Set(rows.map(({ run }) => run))]);
    const cells = states.map((state) => own.get(state)?.length ?? "–");
    return [experimentLink(name), bar(own), ...cells];
  };
  const head = ["experiment", "", ...states.map(stateName)];
  const waiting = ["failed", "interrupted", "running"].flatMap((state) => groups.get(state) ?? []);
  const reasons = waiting.map((id) => {
    const { state, reason } = data.runs[id];
    return [stateWord(state), " ", runLink(id), " ", reason];
  });
  const why = `${counted(waiting.length, "run")} not done, with reasons`;
  return [
    make("p.lead", stateInWords(ids)),
    bar(groups),
    table({ head, lines: data.experiments.map(line) }),
    waiting.length && details(waiting.length <= MOST_OPEN, why, list(reasons)),
  ];
}

function provenanceView(ids) {
  const { commands, code, libraries, devices } = data.provenance;
  const runs = (count) => faint(` (${counted(count, "run")})`);
  const tallied = (entries) => {
    const items = entries.map(([word, count]) => [word, runs(count)]);
    return items.length ? list(items) : "Not recorded.";
  };
  const times = devices.map(([device, count, hours]) => [
    `${duration(3600 * hours)} on ${device}`,
    runs(count),
  ]);
  const unfinished = ids.filter((id) => data.runs[id].state !== "done").length;
  const without = `Not counted: ${counted(unfinished, "unfinished run")}.`;
  return [
    make("h3", "Commands"),
    commands.map(({ experiments, plan, scale, command }) => [
      make("p.faint", `${experiments.join(", ")}: plan ${plan}, ${scale} scale`),
      pre(command),
    ]),
    make(
      "div.columns",
      part(
        "Training time",
        times.length ? list(times) : "No finished run yet.",
        unfinished > 0 && make("p.faint", `As reported by finished runs. ${without}`),
      ),
      part("Program", tallied(code)),
      part("Libraries", tallied(libraries)),
    ),
  ];
}

// Read the data, build the page, and restore the scroll position. The browser cannot restore it
// itself, because the page was still empty when it was loaded.
async function showPage() {
  const packed = atob(document.getElementById("data").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  data = await new Response(plain).json();
  const into = (id, ...content) => fill(document.getElementById(id), content);
  const ids = Object.keys(data.runs);
  const names = data.experiments.map(({ name }) => name);
  document.title = `${names.join(", ")}: a sweep of Headroom`;
  into("written", `${counted(names.length, "experiment")}. ${stateInWords(ids)} `);
  into("written", faint(`Written ${data.written}.`));
  document.getElementById("nav").prepend(...names.map(experimentLink));
  into("experiments", data.experiments.map(experimentView));
  into("state", stateView(ids));
  into("provenance", provenanceView(ids));
  openAddressed();
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (history.state?.scroll !== undefined) window.scrollTo(0, history.state.scroll);
  else named?.scrollIntoView();
}

// Reload the page by script, because a refresh by the browser would lose the scroll position.
const refresh = document.querySelector("meta[name=refresh]");
const loadAgain = () => {
  history.replaceState({ scroll: window.scrollY }, "");
  location.reload();
};
if (refresh) setTimeout(loadAgain, 1000 * refresh.content);
showPage();
