// A run on its own: state, result, settings, training curves, attempts, the end of its log.

const sheet = document.getElementById("run");

function openRun(id) {
  if (!Object.hasOwn(data.runs, id)) return;
  hideTip();
  sheet.replaceChildren(...runView(id, data.runs[id]));
  if (!sheet.open) sheet.showModal();
  sheet.scrollTop = 0;
  history.replaceState(null, "", `#run=${encodeURIComponent(id)}`);
}

sheet.addEventListener("close", () =>
  history.replaceState(null, "", location.pathname + location.search),
);
sheet.addEventListener("click", (event) => {
  if (event.target === sheet) sheet.close();
});

// A page that was opened with a run in its address shows that run.
function openAddressed() {
  const asked = location.hash.match(/^#run=(.+)$/);
  if (asked) openRun(decodeURIComponent(asked[1]));
}

function runView(id, run) {
  const curves = namesOfCurves([id]).map((name) => {
    const place = element("div", { class: "chart" });
    fitted(place, (width) =>
      drawCurves(
        width,
        curvesOf([id], name).map((line) => ({ ...line, colour: "var(--accent)" })),
        name,
        false,
      ),
    );
    return place;
  });
  return [
    element(
      "div",
      { class: "sheet-head" },
      element("h2", { id: "run-name" }, id),
      button("Close", () => sheet.close()),
    ),
    element("p", null, stateWord(run.state), ` ${run.reason ?? ""}`),
    run.problem ? element("p", { class: "problem" }, run.problem) : null,
    part("Result", terms([...numbersOf(run.metrics), ...numbersOf(run.result)])),
    part(
      "Training",
      curves.length
        ? curves
        : element("p", { class: "empty" }, "It has written no training curve."),
    ),
    part(
      "Settings",
      terms([
        ...Object.entries(run.settings).map(([key, value]) => [key, told(value)]),
        ...numbersOf(run.sizes),
      ]),
    ),
    Object.keys(data.shared).length
      ? element(
          "details",
          null,
          element("summary", null, "Settings that all runs of this page share"),
          terms(Object.entries(data.shared).map(([key, value]) => [key, told(value)])),
        )
      : null,
    run.parent && Object.hasOwn(data.runs, run.parent)
      ? part("Fine-tuned from", runButton(run.parent))
      : null,
    part(
      "Attempts",
      run.attempts.length
        ? run.attempts.map(attemptView)
        : element("p", { class: "empty" }, "None yet."),
    ),
    part(
      "End of its log",
      run.log?.length
        ? element("pre", { tabindex: 0 }, run.log.join("\n"))
        : element("p", { class: "empty" }, "It has written no log."),
    ),
    part("Train it again", element("pre", null, `python -m tasks.train outputs/runs/${id}`)),
  ].filter(Boolean);
}

function part(words, ...content) {
  return element("section", null, element("h3", null, words), content);
}

function told(value) {
  return value === null ? "null" : String(value);
}

function numbersOf(values) {
  return Object.entries(values).map(([key, value]) => [
    key.replaceAll("_", " "),
    worded(key, value),
  ]);
}

function attemptView(attempt) {
  const facts = Object.entries({ ...attempt.hardware, ...attempt.versions }).map(
    ([name, value]) => `${name} ${value}`,
  );
  return terms([
    ["attempt", String(attempt.number)],
    ["started", attempt.started?.replace("T", " ").replace("+00:00", " UTC")],
    ["resumed at step", attempt.resumed_from ? attempt.resumed_from.toLocaleString("en") : null],
    ["ended", attempt.cause?.replaceAll("_", " ")],
    ["program", attempt.code],
    ["made with", facts.join(", ")],
  ]);
}

function stateWord(state) {
  return element("span", { class: `state ${state}` }, state);
}
