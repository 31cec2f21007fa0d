// What the page shows, and the elements it is shown with. All text goes in as text nodes, so that nothing a record says becomes markup.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function element(tag, given, ...children) {
  return filled(document.createElement(tag), given, children);
}

function shape(tag, given, ...children) {
  return filled(document.createElementNS(SVG, tag), given, children);
}

// `style` takes custom properties, `on` listeners; all else are attributes, left out if null.
function filled(node, given, children) {
  for (const [name, value] of Object.entries(given ?? {})) {
    if (name === "style") {
      for (const [key, setting] of Object.entries(value)) node.style.setProperty(key, setting);
    } else if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== ""),
  );
  return node;
}

// An experiment is addressed by its name, unless a part of the page is called so.
const OWN = new Set([...document.querySelectorAll("[id]")].map(({ id }) => id));

function anchorOf(name) {
  return OWN.has(name) ? `experiment-${name}` : name;
}

function experimentLink(name) {
  return element("a", { href: `#${encodeURIComponent(anchorOf(name))}` }, name);
}

function button(words, click, given) {
  return element("button", { type: "button", ...given, on: { click } }, words);
}

function runButton(id) {
  return button(id, () => openRun(id), { class: "link name" });
}

// A list of terms and what they are; entries without a value are left out.
function terms(entries, given) {
  const told = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element(
    "dl",
    given,
    told.map(([name, value]) => [element("dt", null, name), element("dd", null, value)]),
  );
}

// A list to choose from; `choose` gets the key of what was chosen.
function choice(words, entries, choose) {
  const list = element(
    "select",
    { on: { change: () => choose(list.value) } },
    entries.map(({ key, words: name }) => element("option", { value: key }, name)),
  );
  return element("label", { class: "choice" }, `${words} `, list);
}

// Draws into `node` for the width it has, and again whenever that changes.
function fitted(node, draw) {
  let width = 0;
  const redraw = () => width > 0 && node.replaceChildren(draw(width));
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now === width) return;
    width = now;
    redraw();
  }).observe(node);
  return redraw;
}

// What `make` gives, made when it is first asked for.
function once(make) {
  let made = null;
  return () => (made ??= make());
}
