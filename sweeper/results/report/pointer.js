// What a pointer finds on a drawing. A spot is a place x, y with its run, the mark of it that is
// drawn, and `tell`, which gives the lines that say what it is.

const NEAR = 28; // how far from a spot, in pixels, a pointer still means it

const tip = document.getElementById("tip");

function showTip(lines, event) {
  tip.replaceChildren(
    ...lines.filter(Boolean).map((line, place) => element(place ? "div" : "strong", null, line)),
  );
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - width - 8);
  const below = event.clientY + 18;
  const top = below + height > window.innerHeight ? event.clientY - height - 12 : below;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

function hideTip() {
  tip.hidden = true;
}

// A pointer near one of the spots, which `spots` gives, tells of its run; a click opens it.
function pickable(svg, spots) {
  let chosen = null;
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const far = ({ x, y }) =>
      Math.hypot(x - (event.clientX - box.left), y - (event.clientY - box.top));
    const [best] = spots().reduce(
      ([spot, least], other) => (far(other) < least ? [other, far(other)] : [spot, least]),
      [null, NEAR],
    );
    return best;
  };
  const choose = (spot) => {
    chosen?.dot.classList.remove("chosen");
    chosen = spot;
    chosen?.dot.classList.add("chosen");
    svg.classList.toggle("over", spot !== null);
  };
  svg.addEventListener("pointermove", (event) => {
    choose(nearest(event));
    if (chosen) showTip(chosen.tell(), event);
    else hideTip();
  });
  svg.addEventListener("pointerleave", () => {
    choose(null);
    hideTip();
  });
  svg.addEventListener("click", (event) => {
    const spot = nearest(event);
    if (spot) openRun(spot.run);
  });
}

// The value at the pointer, of a single curve.
function tellable(svg, spots) {
  svg.addEventListener("pointermove", (event) => {
    const x = event.clientX - svg.getBoundingClientRect().left;
    const nearest = spots().reduce((best, spot) =>
      Math.abs(spot.x - x) < Math.abs(best.x - x) ? spot : best,
    );
    showTip(nearest.tell().slice(1, 2), event);
  });
  svg.addEventListener("pointerleave", hideTip);
}
