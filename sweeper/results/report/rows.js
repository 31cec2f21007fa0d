// The rows of an experiment: sorted by any column, filtered by words, ticked to choose runs.

const MOST_ROWS = 500; // drawn at once

class Rows {
  // `changed(ids, words)` hears which runs are chosen: those ticked, or all that the filter leaves.
  constructor(about, changed) {
    this.about = about;
    this.changed = changed;
    this.keys = about.columns.map(({ key }) => key);
    this.labels = new Map(about.arms.map((arm) => [arm.name, arm.label]));
    this.rows = about.rows.map((cells) => ({ cells, text: this.textOf(cells) }));
    this.ticked = new Set();
    this.sorted = null;
    this.down = false;
    this.body = element("tbody");
    this.count = element("p", { class: "faint", "aria-live": "polite" });
    this.filter = element("input", {
      type: "search",
      placeholder: "Filter: failed, heads=8, seed …",
      "aria-label": "Filter the runs",
      on: { input: () => this.show() },
    });
    this.all = element("input", {
      type: "checkbox",
      "aria-label": "Tick all rows that the filter leaves",
      on: { change: () => this.tickAll() },
    });
    this.heads = about.columns.map(({ words }, place) => this.head(words, place));
    this.chips = ["state", "task"].flatMap((key) => this.chipsOf(key));
    this.show();
  }

  at(row, key) {
    return row.cells[this.keys.indexOf(key)];
  }

  // Everything in a row that a reader may look for.
  textOf(cells) {
    const arm = this.labels.get(cells[this.keys.indexOf("arm")]) ?? "";
    const words = cells.map((cell, place) => worded(this.keys[place], cell));
    return [...words, arm].join(" ").toLowerCase();
  }

  // The rows that have all words of the filter, in the order that was asked for.
  left() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.rows.filter(({ text }) => words.every((word) => text.includes(word)));
    if (this.sorted === null) return found;
    const way = this.down ? -1 : 1;
    const cell = (row) => row.cells[this.sorted];
    return found.sort((a, b) => way * compared(cell(a), cell(b), this.down));
  }

  show() {
    const found = this.left();
    this.body.replaceChildren(...found.slice(0, MOST_ROWS).map((row) => this.line(row)));
    this.heads.forEach((head, place) => {
      const way = this.down ? "descending" : "ascending";
      head.setAttribute("aria-sort", place === this.sorted ? way : "none");
    });
    for (const chip of this.chips) {
      chip.setAttribute("aria-pressed", chip.dataset.word === this.filter.value);
    }
    const cut = `The first ${MOST_ROWS} are shown; the filter finds the others.`;
    const total = `${counted(found.length, "row")} of ${this.rows.length.toLocaleString("en")}.`;
    this.count.textContent = found.length > MOST_ROWS ? `${total} ${cut}` : total;
    this.choose(found);
  }

  choose(found) {
    const { ticked } = this;
    this.all.checked = found.length > 0 && found.every((row) => ticked.has(row));
    const chosen = ticked.size ? [...ticked] : found;
    const ids = [...new Set(chosen.map((row) => this.at(row, "run")))];
    const why = ticked.size ? "those ticked" : "those the filter leaves; tick rows to choose";
    this.changed(ids, `${counted(ids.length, "run")}: ${why}`);
  }

  tick(row, on) {
    if (on) this.ticked.add(row);
    else this.ticked.delete(row);
    if (row.tick) row.tick.checked = on;
  }

  tickAll() {
    for (const row of this.left()) this.tick(row, this.all.checked);
    this.choose(this.left());
  }

  sort(place) {
    this.down = this.sorted === place && !this.down;
    this.sorted = place;
    this.show();
  }

  head(words, place) {
    const number = this.rows.some(({ cells }) => typeof cells[place] === "number");
    const given = { "data-key": this.keys[place], scope: "col", class: number ? "number" : null };
    return element(
      "th",
      given,
      button(words, () => this.sort(place)),
    );
  }

  // A button for each word of a column, which filters by it.
  chipsOf(key) {
    if (!this.keys.includes(key)) return [];
    const groups = Map.groupBy(this.rows, (row) => String(this.at(row, key)));
    return [...groups].map(([word, rows]) => {
      const click = () => {
        this.filter.value = this.filter.value === word ? "" : word;
        this.show();
      };
      return button(`${word} ${rows.length}`, click, { class: "chip", "data-word": word });
    });
  }

  line(row) {
    if (row.node) return row.node;
    row.tick = element("input", {
      type: "checkbox",
      "aria-label": `Choose ${this.at(row, "run")}`,
      on: {
        change: () => {
          this.tick(row, row.tick.checked);
          this.choose(this.left());
        },
      },
    });
    row.tick.checked = this.ticked.has(row);
    const cells = row.cells.map((cell, place) => this.cell(row, this.keys[place], cell));
    row.node = element("tr", null, element("td", null, row.tick), cells);
    return row.node;
  }

  cell(row, key, value) {
    const words = worded(key, value);
    const given = { class: typeof value === "number" ? "number" : "words" };
    if (key === "run") return element("td", { class: "name" }, words);
    if (key === "state") return element("td", null, stateWord(words));
    if (key === "point") {
      const open = () => openRun(this.at(row, "run"));
      return element("td", given, button(words || "one setting", open, { class: "link" }));
    }
    if (key === "arm") {
      const swatch = { class: "swatch", style: { color: hue(this.about.arms, value) } };
      return element("td", given, element("span", swatch), this.labels.get(value) ?? words);
    }
    return element("td", given, words);
  }

  view() {
    const { alike } = this.about;
    const told = alike.map(([words, value]) => `${words} ${worded("", value)}`).join(", ");
    const tickHead = element("th", { scope: "col" }, this.all);
    const head = element("thead", null, element("tr", null, tickHead, this.heads));
    const region = { class: "scroll", tabindex: 0, role: "region", "aria-label": "Runs" };
    return element(
      "div",
      { class: "rows" },
      element("div", { class: "tools" }, this.filter, this.chips),
      this.count,
      element("div", region, element("table", null, head, this.body)),
      told ? element("p", { class: "faint" }, `Alike in all rows: ${told}.`) : null,
    );
  }
}

// Numbers by size, words by letters, and what is empty last whichever way the rows are sorted.
function compared(a, b, down) {
  const empty = (value) => value === null || value === undefined || value === "";
  if (empty(a) || empty(b)) return (empty(a) - empty(b)) * (down ? -1 : 1);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
