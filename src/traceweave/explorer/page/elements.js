// Elements of the page. Texts are only ever set as text.

export function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...inside.filter((one) => one !== null && one !== undefined));
  return made;
}

export const button = (label, act, attributes = {}) => element("button", { type: "button", onclick: act, ...attributes }, label);

export function swatch(colour) {
  const made = element("i", { class: "swatch" });
  made.style.background = colour;
  return made;
}

// Rows of cells; those of a column that is in `right` are numbers.
export function table(caption, heads, rows, right = []) {
  const cell = (kind) => (one, i) => element(kind, { class: right.includes(i) ? "num" : "" }, one);
  return element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...heads.map(cell("th")))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell("td"))))),
  );
}
