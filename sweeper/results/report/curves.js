// Training curves: a line a run, of any selection of runs; each task has axes of its own.

const TWO_COLUMNS_FROM = 800; // pixels

function curvesOf(ids, name) {
  return ids.flatMap((id) => {
    const found = data.runs[id].curves?.[name];
    return found ? [{ id, steps: found[0], values: found[1] }] : [];
  });
}

function namesOfCurves(ids) {
  return [...new Set(ids.flatMap((id) => Object.keys(data.runs[id].curves ?? {})))].sort();
}

// `lines` hold id, steps, values (null where it was no number) and a colour.
function drawCurves(width, lines, name, click) {
  const height = Math.round(Math.min(360, Math.max(230, width * 0.5)));
  const numbers = lines.flatMap((line) => line.values.filter((value) => value !== null));
  if (!numbers.length)
    return element("p", { class: "empty" }, `No run of this selection has written ${name}.`);
  const steps = lines.flatMap((line) => [line.steps[0], line.steps.at(-1)]);
  const box = plot(width, height, [0, ...steps], numbers, {
    x: "step",
    y: name,
    pad: 0.01,
  });
  for (const line of lines) {
    line.path = shape("path", {
      class: "curve",
      "data-run": line.id,
      style: { color: line.colour },
      d: pathOf(line, box),
    });
    box.svg.append(line.path);
  }
  // Most selections are never pointed at, and the spots are many: they are found when they are.
  const spots = once(() => lines.flatMap((line) => spotsOf(line, box)));
  if (click) pickable(box.svg, spots);
  else tellable(box.svg, spots);
  return box.svg;
}

function spotsOf(line, box) {
  return line.steps.flatMap((step, place) => {
    const value = line.values[place];
    if (value === null) return [];
    const tell = () => [
      line.id,
      `step ${step.toLocaleString("en")}: ${short(value, 5)}`,
      line.told,
    ];
    const at = { x: box.across(step), y: box.upward(value) };
    return [{ ...at, run: line.id, dot: line.path, tell }];
  });
}

function pathOf(line, box) {
  let pen = "M";
  return line.steps
    .map((step, place) => {
      if (line.values[place] === null) {
        pen = "M";
        return "";
      }
      const part = `${pen}${box.across(step).toFixed(1)} ${box.upward(line.values[place]).toFixed(1)}`;
      pen = "L";
      return part;
    })
    .join("");
}

// The curves of a selection; `show(ids, words)` changes it.
function curvesView(arms, armOf) {
  let ids = [],
    name = "",
    told = "";
  const place = element("div", { class: "chart" });
  const caption = element("figcaption");
  const redraw = fitted(place, (width) => {
    const tasks = Map.groupBy(ids, (id) => data.runs[id].task ?? "");
    const columns = tasks.size > 1 && width > TWO_COLUMNS_FROM ? 2 : 1;
    const panels = [...tasks].map(([task, own]) => {
      const lines = curvesOf(own, name).map((line) => ({
        ...line,
        colour: hue(arms, armOf.get(line.id)),
        told: lookOf(arms, armOf.get(line.id)).label,
      }));
      const head = tasks.size > 1 ? element("p", { class: "name" }, task) : null;
      return element("div", null, head, drawCurves(Math.floor(width / columns) - 12, lines, name, true));
    });
    const none = element("p", { class: "empty" }, "No run is chosen.");
    return element("div", { class: columns > 1 ? "pair" : null }, ids.length ? panels : none);
  });
  const show = (chosen, words) => {
    [ids, told] = [chosen, words];
    const names = namesOfCurves(ids);
    if (!names.includes(name))
      name = names.includes("train/loss") ? "train/loss" : (names[0] ?? "train/loss");
    caption.replaceChildren(
      element("strong", null, "Training curves"),
      element("span", { class: "faint" }, told),
      names.length > 1
        ? choice(
            "of",
            [name, ...names.filter((other) => other !== name)].map((key) => ({ key, words: key })),
            (chosenName) => {
              name = chosenName;
              redraw();
            },
          )
        : "",
    );
    redraw();
  };
  return { node: element("figure", { class: "curves" }, caption, place), show };
}
