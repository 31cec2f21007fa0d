// The page: what is there at a glance, then each experiment, then what it was made with.

function fill(id, ...children) {
  filled(document.getElementById(id), null, children);
}

// Every question of an experiment once, with each answer to it; measures that agree share one.
function claimsView() {
  const asked = data.experiments.flatMap((about) =>
    [...Map.groupBy(about.verdicts, ({ question }) => question)].map(([question, verdicts]) =>
      element("li", null, answersTo(verdicts), element("div", null, question, " ", experimentLink(about.name))),
    ),
  );
  if (!asked.length) return element("p", { class: "empty" }, "These experiments make no claim.");
  return element("ul", { class: "claims" }, asked);
}

function answersTo(verdicts) {
  const answers = [...Map.groupBy(verdicts, ({ answer }) => answer)];
  return element(
    "div",
    null,
    answers.map(([answer, same]) => {
      const by = answers.length > 1 ? ` by ${same.map(({ measure }) => measure).join(", ")}` : "";
      return element("div", null, answerWord(answer), by && element("span", { class: "faint" }, by));
    }),
  );
}

// The first figure that has a point, for the first screen.
function firstFigure() {
  const about = data.experiments.find(({ figures }) => figures.some(({ points }) => points.length));
  if (!about) return null;
  const figure = figureView(about.figures.find(({ points }) => points.length), about.arms);
  return [element("h2", null, about.title, " ", experimentLink(about.name)), figure];
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
  const kinds = Map.groupBy(devices, ({ kind }) => kind || "other device");
  const totals = [...kinds].map(
    ([kind, own]) => `${hours(own.reduce((sum, one) => sum + one.hours, 0))} on ${kind}s`,
  );
  return [
    element("h3", null, "Commands"),
    commands.map(({ experiments, plan, scale, command }) =>
      element(
        "div",
        null,
        element("p", { class: "faint" }, `${experiments.join(", ")}: plan ${plan}, ${scale} scale`),
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
        devices.length > 1 ? element("p", { id: "hours" }, `In all ${totals.join(", ")}.`) : null,
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
  `${counted(data.experiments.length, "experiment")}. ${stateInWords(Object.keys(data.runs))} `,
  element("span", { class: "faint" }, `Written ${data.written}.`),
);
fill(
  "nav",
  data.experiments.map(({ name }) => experimentLink(name)),
  ["state", "provenance"].map((id) => element("a", { href: `#${id}` }, id)),
);
fill("claims", claimsView());
fill("first", firstFigure());
fill("state", stateView());
fill("provenance", provenanceView());
fill("experiments", data.experiments.map(experimentView));
openAddressed();
window.addEventListener("hashchange", openAddressed);
