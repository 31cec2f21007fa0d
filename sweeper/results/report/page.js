// The page: what is there at a glance, then each experiment, then what it was made with.

function fill(id, ...children) {
  filled(document.getElementById(id), null, children);
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
  const kinds = Map.groupBy(devices, ({ kind }) => kind || "other device");
  const totals = [...kinds].map(
    ([kind, own]) => `${hours(own.reduce((sum, one) => sum + one.hours, 0))} on ${kind}s`,
  );
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
