// The page: what is there at a glance, then each experiment, then what it was made with.

const STATES = ["done", "running", "interrupted", "failed", "new"];
const IN_WORDS = {
  done: "done",
  running: "running",
  interrupted: "interrupted",
  failed: "failed",
  new: "not started",
};
const ATTENTION = ["failed", "interrupted", "running"];

function fill(id, ...children) {
  filled(document.getElementById(id), null, children);
}

function tally(states) {
  return STATES.map((state) => [state, states.filter((one) => one === state).length]).filter(
    ([, count]) => count,
  );
}

function bar(counts, of) {
  return element(
    "div",
    { class: "bar", "aria-hidden": "true" },
    counts.map(([state, count]) =>
      element("span", { class: state, style: { "--share": `${(100 * count) / of}%` } }),
    ),
  );
}

function stateView() {
  const ids = Object.keys(data.runs);
  const counts = tally(ids.map((id) => data.runs[id].state));
  const words = counts.map(([state, count]) => `${count.toLocaleString("en")} ${IN_WORDS[state]}`);
  const all = counts.length === 1 && counts[0][0] === "done";
  const sentence = all
    ? `All ${counted(ids.length, "run")} are done.`
    : `Of ${counted(ids.length, "run")}, ${words.join(", ")}.`;
  const waiting = ATTENTION.flatMap((state) => ids.filter((id) => data.runs[id].state === state));
  return [
    element("p", { class: "lead" }, sentence),
    bar(counts, ids.length),
    element(
      "div",
      { class: "scroll" },
      element(
        "table",
        { class: "tally" },
        element(
          "thead",
          null,
          element(
            "tr",
            null,
            ["experiment", "", ...counts.map(([state]) => IN_WORDS[state])].map((head) =>
              element("th", { scope: "col" }, head),
            ),
          ),
        ),
        element(
          "tbody",
          null,
          data.experiments.map((about, place) => tallyLine(about, place, counts)),
        ),
      ),
    ),
    waiting.length
      ? element(
          "details",
          { open: waiting.length <= 12 },
          element("summary", null, `${counted(waiting.length, "run")} not done, and why`),
          element(
            "ul",
            { class: "waiting" },
            waiting.map((id) =>
              element(
                "li",
                null,
                stateWord(data.runs[id].state),
                " ",
                runButton(id),
                " ",
                element("span", null, data.runs[id].reason ?? ""),
              ),
            ),
          ),
        )
      : null,
  ];
}

function tallyLine(about, place, totals) {
  const at = Object.fromEntries(about.columns.map(({ key }, column) => [key, column]));
  const states = [...new Map(about.rows.map((cells) => [cells[at.run], cells[at.state]])).values()];
  const own = tally(states);
  return element(
    "tr",
    null,
    element("th", { scope: "row" }, element("a", { href: `#experiment-${place}` }, about.name)),
    element("td", null, bar(own, states.length)),
    totals.map(([state]) =>
      element("td", { class: "number" }, String(own.find(([one]) => one === state)?.[1] ?? "–")),
    ),
  );
}

function claimsView() {
  const asked = data.experiments.flatMap((about, place) =>
    [...Map.groupBy(about.verdicts, (verdict) => verdict.question)].map(([question, answers]) => ({
      about,
      place,
      question,
      answers,
    })),
  );
  if (!asked.length) return element("p", { class: "empty" }, "These experiments make no claim.");
  return element(
    "ul",
    { class: "claims" },
    asked.map(({ about, place, question, answers }) =>
      element(
        "li",
        null,
        element(
          "div",
          null,
          answers.map(({ answer, measure }) =>
            element(
              "div",
              null,
              answerWord(answer),
              answers.length > 1 ? element("span", { class: "faint" }, ` by ${measure}`) : null,
            ),
          ),
        ),
        element(
          "div",
          null,
          question,
          " ",
          element("a", { href: `#experiment-${place}` }, about.name),
        ),
      ),
    ),
  );
}

function provenanceView() {
  const { commands, code, libraries, devices } = data.provenance;
  const runs = ([word, count]) =>
    element(
      "li",
      null,
      `${word} `,
      element("span", { class: "faint" }, `(${counted(count, "run")})`),
    );
  const list = (words) =>
    words.length ? element("ul", null, words.map(runs)) : "The records do not say.";
  const unfinished = Object.values(data.runs).filter((run) => run.state !== "done").length;
  const finished = devices.length
    ? devices.map(({ device, kind, runs: count, hours: total }) =>
        element(
          "li",
          null,
          `${hours(total)} on ${device} ${kind && `(${kind})`} `,
          element("span", { class: "faint" }, counted(count, "run")),
        ),
      )
    : null;
  return [
    element("h3", null, "Commands"),
    commands.map(({ experiment, plan, scale, command }) =>
      element(
        "div",
        null,
        element("p", { class: "faint" }, `${experiment}: plan ${plan}, ${scale} scale`),
        element("pre", { tabindex: 0 }, command),
      ),
    ),
    element(
      "div",
      { class: "columns" },
      element(
        "div",
        null,
        element("h3", null, "Training time"),
        finished ? element("ul", null, finished) : "No finished run yet.",
        unfinished
          ? element(
              "p",
              { class: "faint" },
              `As finished runs report it; ${counted(unfinished, "unfinished run")} not counted.`,
            )
          : null,
      ),
      element("div", null, element("h3", null, "Program"), list(code)),
      element("div", null, element("h3", null, "Libraries"), list(libraries)),
    ),
  ];
}

// Light or dark as the system says, until the reader says otherwise.
function themeSwitch() {
  const root = document.documentElement;
  const toggle = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => {
    toggle.textContent = dark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`);
  };
  toggle.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  name();
}

themeSwitch();
document.title = `${data.experiments.map(({ name }) => name).join(", ")}: a sweep of Headroom`;
fill(
  "written",
  `${counted(data.experiments.length, "experiment")}, ${counted(Object.keys(data.runs).length, "run")}; written ${data.written}`,
);
fill(
  "nav",
  data.experiments.map((about, place) =>
    element("a", { href: `#experiment-${place}` }, about.name),
  ),
  element("a", { href: "#provenance" }, "provenance"),
);
fill("state", stateView());
fill("claims", claimsView());
fill("experiments", data.experiments.map(experimentView));
fill("provenance", provenanceView());
openAddressed();
window.addEventListener("hashchange", openAddressed);
