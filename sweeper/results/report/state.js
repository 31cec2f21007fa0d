// How far the sweep is: counts, a bar, and why runs are not done.

const STATES = ["done", "running", "interrupted", "failed", "new"];
const IN_WORDS = {
  done: "done",
  running: "running",
  interrupted: "interrupted",
  failed: "failed",
  new: "not started",
};
const ATTENTION = ["failed", "interrupted", "running"];
const MOST_OPEN = 12; // reasons that are told without being asked for

function tally(states) {
  const counts = STATES.map((state) => [state, states.filter((one) => one === state).length]);
  return counts.filter(([, count]) => count);
}

function bar(counts, of) {
  const parts = counts.map(([state, count]) => {
    const share = { "--share": `${(100 * count) / of}%` };
    return element("span", { class: state, style: share });
  });
  return element("div", { class: "bar", "aria-hidden": "true" }, parts);
}

function stateInWords(ids) {
  const counts = tally(ids.map((id) => data.runs[id].state));
  const words = counts.map(([state, count]) => `${count.toLocaleString("en")} ${IN_WORDS[state]}`);
  const all = counts.length === 1 && counts[0][0] === "done";
  const runs = counted(ids.length, "run");
  return all ? `All ${runs} are done.` : `Of ${runs}, ${words.join(", ")}.`;
}

function stateView() {
  const ids = Object.keys(data.runs);
  const counts = tally(ids.map((id) => data.runs[id].state));
  return [
    element("p", { class: "lead" }, stateInWords(ids)),
    bar(counts, ids.length),
    tallyTable(counts),
    waitingView(ids),
  ];
}

function tallyTable(counts) {
  const words = ["experiment", "", ...counts.map(([state]) => IN_WORDS[state])];
  const heads = words.map((head) => element("th", { scope: "col" }, head));
  const lines = data.experiments.map((about) => tallyLine(about, counts));
  const parts = [element("thead", null, element("tr", null, heads)), element("tbody", null, lines)];
  return element("div", { class: "scroll" }, element("table", { class: "tally" }, parts));
}

function tallyLine(about, totals) {
  const at = Object.fromEntries(about.columns.map(({ key }, column) => [key, column]));
  const states = [...new Map(about.rows.map((cells) => [cells[at.run], cells[at.state]])).values()];
  const own = new Map(tally(states));
  const name = experimentLink(about.name);
  return element(
    "tr",
    null,
    element("th", { scope: "row" }, name),
    element("td", null, bar([...own], states.length)),
    totals.map(([state]) => element("td", { class: "number" }, String(own.get(state) ?? "–"))),
  );
}

// The runs that want somebody to look at them, with the reason of each.
function waitingView(ids) {
  const waiting = ATTENTION.flatMap((state) => ids.filter((id) => data.runs[id].state === state));
  if (!waiting.length) return null;
  const lines = waiting.map((id) => {
    const { state, reason } = data.runs[id];
    return element("li", null, stateWord(state), " ", runButton(id), " ", reason);
  });
  return element(
    "details",
    { open: waiting.length <= MOST_OPEN },
    element("summary", null, `${counted(waiting.length, "run")} not done, and why`),
    element("ul", { class: "waiting" }, lines),
  );
}
