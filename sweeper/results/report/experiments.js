// An experiment: verdicts, figures, the table as a paper prints it, its runs and their curves.

function experimentView(about) {
  const armOf = new Map();
  const keys = about.columns.map(({ key }) => key);
  for (const cells of about.rows)
    if (!armOf.has(cells[keys.indexOf("run")]))
      armOf.set(cells[keys.indexOf("run")], cells[keys.indexOf("arm")]);
  const curves = curvesView(about.arms, armOf);
  const rows = new Rows(about, curves.show).view();
  const scale = about.scale && `${about.scale} scale`;
  const fixed = about.fixed.length && `with ${about.fixed.join(", ")}`;
  const setting = [scale, about.text && `text: ${about.text}`, fixed].filter(Boolean).join("; ");
  return element(
    "section",
    { id: anchorOf(about.name), class: "experiment" },
    element("p", { class: "name" }, about.name),
    element("h2", null, about.title),
    setting ? element("p", { class: "faint" }, setting) : null,
    element(
      "div",
      { class: about.figures.length > 1 ? "figures" : null },
      about.figures.map((figure) => figureView(figure, about.arms)),
    ),
    about.notes.map((note) => element("p", { class: "faint" }, note)),
    verdictsView(about.verdicts),
    closingView(about.closing),
    about.paper_table ? paperTableView(about.paper_table) : null,
    element("h3", null, "Runs"),
    rows,
    curves.node,
  );
}

// Each question once, below it the answer by each measure.
function verdictsView(verdicts) {
  const questions = Map.groupBy(verdicts, (verdict) => verdict.question);
  return element(
    "div",
    { class: "verdicts" },
    [...questions].map(([question, answers]) =>
      element(
        "article",
        { class: "verdict" },
        element("h3", null, question),
        answers.map(({ answer, measure, sentence }) =>
          element(
            "p",
            null,
            answerWord(answer),
            measure ? element("span", { class: "faint" }, ` by ${measure}. `) : " ",
            sentence,
          ),
        ),
      ),
    ),
  );
}

function answerWord(answer) {
  return element(
    "strong",
    { class: `answer ${answer.replaceAll(" ", "-")}` },
    answer.charAt(0).toUpperCase() + answer.slice(1),
  );
}

function paperTableView(table) {
  return element(
    "details",
    { class: "paper-table", open: true },
    element("summary", null, "As a table"),
    table.blocks.map((block) =>
      element(
        "div",
        { class: "scroll" },
        element(
          "table",
          null,
          element("caption", null, block.title),
          element(
            "thead",
            null,
            element(
              "tr",
              null,
              block.head.map((cell) => element("th", { scope: "col" }, cell)),
            ),
          ),
          element(
            "tbody",
            null,
            block.lines.map(([head, ...cells]) =>
              element(
                "tr",
                null,
                element("th", { scope: "row" }, head),
                cells.map((cell) => element("td", { class: "number" }, cell)),
              ),
            ),
          ),
        ),
      ),
    ),
    table.notes.map((note) => element("p", { class: "faint" }, note)),
  );
}
