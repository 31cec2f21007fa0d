// How the interval of each contrast closed, round by round, until it left zero or lay within the margin.

const CLOSING_HEIGHT = 130;

function closingView(claims) {
  if (!claims.length) return null;
  return element(
    "details",
    { class: "closing", open: true },
    element("summary", null, "How the intervals closed, round by round"),
    element("p", { class: "faint" }, "Above zero the claim is right; the band is the margin."),
    claims.map((claim) =>
      element(
        "article",
        null,
        element("h4", null, claim.claim, claim.measure ? `, ${claim.measure}: ` : ": ", answerWord(claim.answer)),
        element(
          "div",
          { class: "closings" },
          claim.contrasts.map((contrast) => closingFigure(contrast, claim)),
        ),
      ),
    ),
  );
}

function closingFigure(contrast, claim) {
  const drawn = element("div");
  fitted(drawn, (width) => drawClosing(width, contrast.steps, claim));
  return element("figure", null, element("figcaption", null, contrast.words), drawn);
}

function drawClosing(width, steps, { margin, unit }) {
  const [left, right, top, bottom] = [44, width - 8, 8, CLOSING_HEIGHT - 20];
  const last = steps.at(-1).filter((value) => value !== null);
  const heights = [0, ...last, ...(margin ?? [])];
  const reach = Math.max(...heights) - Math.min(...heights) || 1;
  const scale = scaleOf(
    [Math.min(...heights) - reach / 2, Math.max(...heights) + reach / 2],
    [bottom, top],
    { pad: 0, given: [0] },
  );
  const inside = (value) => Math.min(Math.max(scale.at(value), top), bottom);
  const across = (place) => left + ((place + 0.5) / steps.length) * (right - left);
  const svg = shape("svg", { width, height: CLOSING_HEIGHT, role: "img" });
  if (margin) {
    const [low, high] = margin.map(inside);
    svg.append(shape("rect", { class: "margin", x: left, y: high, width: right - left, height: low - high }));
  }
  for (const { value, words } of scale.ticks)
    svg.append(
      shape("text", { class: "tick", x: left - 6, y: scale.at(value) + 4, "text-anchor": "end" }, words + unit),
    );
  svg.append(shape("line", { class: "baseline", x1: left, x2: right, y1: inside(0), y2: inside(0) }));
  const every = Math.ceil((steps.length * 24) / (right - left));
  steps.forEach(([value, low, high], place) => {
    const x = across(place);
    if (place % every === 0)
      svg.append(
        shape("text", { class: "tick", x, y: CLOSING_HEIGHT - 4, "text-anchor": "middle" }, String(place + 1)),
      );
    const ends = [low === null ? bottom : inside(low), high === null ? top : inside(high)];
    const known = low !== null || high !== null;
    const line = { class: known ? "interval" : "interval unknown", x1: x, x2: x, y1: ends[0], y2: ends[1] };
    if (value !== null) svg.append(shape("line", line), shape("circle", { cx: x, cy: inside(value), r: 2.5 }));
  });
  return svg;
}
