// The rows of an experiment: sorted by any column, filtered by words, ticked to choose runs.

const MOST_ROWS = 500; // drawn at once

// `changed(ids, words)` hears which runs are chosen: the ticked ones, or all that the filter leaves.
function rowsView(about, changed) {
  const keys = about.columns.map(({ key }) => key);
  const [runAt, stateAt, armAt] = ["run", "state", "arm"].map((key) => keys.indexOf(key));
  const taskAt = keys.indexOf("task");
  const label = new Map(about.arms.map((arm) => [arm.name, arm.label]));
  const rows = about.rows.map((cells) => ({ cells, text: textOf(cells) }));
  const ticked = new Set();
  let sorted = null,
    down = false,
    asked = "";

  function textOf(cells) {
    return [...cells.map((cell, place) => worded(keys[place], cell)), label.get(cells[armAt]) ?? ""]
      .join(" ")
      .toLowerCase();
  }

  function left() {
    const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
    const found = rows.filter(({ text }) => words.every((word) => text.includes(word)));
    if (sorted === null) return found;
    return found.sort((a, b) => (down ? -1 : 1) * compared(a.cells[sorted], b.cells[sorted], down));
  }

  function numeric(place) {
    return about.rows.some((cells) => typeof cells[place] === "number");
  }

  const body = element("tbody");
  const count = element("p", { class: "faint", "aria-live": "polite" });
  const filter = element("input", {
    type: "search",
    placeholder: "Filter: failed, heads=8, seed …",
    "aria-label": "Filter the runs",
    on: {
      input: () => {
        asked = filter.value;
        show();
      },
    },
  });
  const heads = about.columns.map(({ key, words }, place) =>
    element(
      "th",
      { "data-key": key, scope: "col", class: numeric(place) ? "number" : null },
      button(words, () => {
        [sorted, down] = [place, sorted === place && !down];
        show();
      }),
    ),
  );
  const all = element("input", {
    type: "checkbox",
    "aria-label": "Tick all rows shown",
    on: {
      change: () => {
        for (const row of left()) all.checked ? ticked.add(row) : ticked.delete(row);
        show();
      },
    },
  });
  const counts = (place) =>
    Object.entries(Object.groupBy(about.rows, (cells) => String(cells[place]))).map(
      ([word, of]) => [word, of.length],
    );
  const chips = [...counts(stateAt), ...(taskAt < 0 ? [] : counts(taskAt))].map(([word, of]) =>
    button(
      `${word} ${of}`,
      () => {
        filter.value = asked = asked === word ? "" : word;
        show();
      },
      { class: "chip", "data-word": word },
    ),
  );

  function show() {
    const found = left();
    body.replaceChildren(...found.slice(0, MOST_ROWS).map(line));
    heads.forEach((head, place) =>
      head.setAttribute("aria-sort", place !== sorted ? "none" : down ? "descending" : "ascending"),
    );
    for (const chip of chips) chip.setAttribute("aria-pressed", chip.dataset.word === asked);
    const cut =
      found.length > MOST_ROWS
        ? ` The first ${MOST_ROWS} are shown; the filter finds the others.`
        : "";
    count.textContent = `${counted(found.length, "row")} of ${about.rows.length.toLocaleString("en")}.${cut}`;
    all.checked = found.length > 0 && found.every((row) => ticked.has(row));
    choose(found);
  }

  function choose(found) {
    const chosen = ticked.size ? [...ticked] : found;
    const ids = [...new Set(chosen.map(({ cells }) => cells[runAt]))];
    changed(
      ids,
      `${counted(ids.length, "run")}: ${ticked.size ? "those ticked" : "those the filter leaves; tick rows to choose"}`,
    );
  }

  function line(row) {
    const tick = element("input", {
      type: "checkbox",
      "aria-label": `Choose ${row.cells[runAt]}`,
      on: {
        change: () => {
          if (tick.checked) ticked.add(row);
          else ticked.delete(row);
          choose(left());
        },
      },
    });
    tick.checked = ticked.has(row);
    return element(
      "tr",
      null,
      element("td", null, tick),
      row.cells.map((cell, place) => drawn(row, keys[place], cell)),
    );
  }

  function drawn(row, key, cell) {
    const words = worded(key, cell);
    if (key === "point")
      return element(
        "td",
        { class: "words" },
        button(words || "one setting", () => openRun(row.cells[runAt]), { class: "link" }),
      );
    if (key === "run") return element("td", { class: "name" }, words);
    if (key === "state") return element("td", null, stateWord(words));
    if (key === "arm")
      return element(
        "td",
        { class: "words" },
        element("span", { class: "swatch", style: { color: hue(about.arms, cell) } }),
        label.get(cell) ?? words,
      );
    return element("td", { class: typeof cell === "number" ? "number" : "words" }, words);
  }

  show();
  return element(
    "div",
    { class: "rows" },
    element("div", { class: "tools" }, filter, chips),
    count,
    element(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Runs" },
      element(
        "table",
        null,
        element("thead", null, element("tr", null, element("th", { scope: "col" }, all), heads)),
        body,
      ),
    ),
    about.alike.length
      ? element(
          "p",
          { class: "faint" },
          `Alike in all rows: ${about.alike.map(([words, value]) => `${words} ${worded("", value)}`).join(", ")}.`,
        )
      : null,
  );
}

// Numbers by size, words by letters, and what is empty last whichever way the rows are sorted.
function compared(a, b, down) {
  const empty = (value) => value === null || value === undefined || value === "";
  if (empty(a) || empty(b)) return (empty(a) - empty(b)) * (down ? -1 : 1);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
