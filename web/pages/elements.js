// Elements as plain objects, so that pages can be built and tested without a browser. Text never becomes markup.

// Attributes that are functions are event listeners; "chart" and "setup" are for the page (main.js).
export const h = (tag, attributes, ...children) =>
  ({ tag, attributes: attributes ?? {},
      children: children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false) });

export const section = (title, ...children) => h("section", null, h("h2", null, title), children);
export const note = (...sentences) => h("p", { class: "note" }, unbroken(sentences.filter(Boolean).join(" ")));
export const paragraphs = (sentences) =>
  h("div", { class: "summary" }, sentences.map((sentence) => h("p", null, unbroken(sentence))));

// No line break inside of "n = 2" or "β − 1".
export const unbroken = (text) => text.replace(/ ([=−]) /g, "\u00a0$1\u00a0");

// A place for a chart. `chart` is one (see charts.js), or a function of the chosen settings that gives one; it is drawn again
// when a setting of `uses` changes.
export const figure = (chart, uses = []) =>
  h("figure", { class: "chart", chart: typeof chart === "function" ? chart : () => chart, uses: uses.join(" ") });
export const grid = (figures, kind = "") => h("div", { class: `grid ${kind}`.trim() }, figures);

// Radio buttons that choose a setting: [[value, label], ...], the first or `checked` is chosen. Nothing if there is no choice.
export const choice = (name, legend, options, checked = options[0]?.[0]) =>
  (options.length < 2 ? null : radios(name, legend, options, checked));
export const radios = (name, legend, options, checked) =>
  h("fieldset", { class: "choice" }, h("legend", null, legend), options.map(([value, label]) =>
    h("label", null, h("input", { type: "radio", name, value, ...(value === checked ? { checked: "" } : {}) }), ` ${label}`)));

// columns: [{ head, cell: (row) => null | text | { text, value, small, bold, title, href, swatch }, number, nowrap }]. Columns without any
// cell are left out. Where it is narrow, a row becomes a list of its cells, each with the column's head.
export function table(columns, rows, kind = "") {
  const shown = columns.map((column) => ({ ...column, cells: rows.map((row) => normalCell(column.cell(row))) }))
    .filter((column) => column.cells.some(Boolean));
  const wide = shown.length > 6 ? "wide" : "";
  return h("table", { class: `${kind} ${wide}`.trim() },
    h("thead", null, h("tr", null,
        shown.map((column) => h("th", column.number ? { class: "number" } : null,
            h("button", { type: "button", onclick: sortTable }, column.head))))),
    h("tbody", null, rows.map((_, i) => h("tr", null, shown.map((column) => tableCell(column, column.cells[i]))))));
}

const normalCell = (cell) =>
  (cell === null || cell === undefined || cell === "" ? null : typeof cell === "object" ? cell : { text: String(cell) });

function tableCell(column, cell) {
  const attributes = { "data-head": column.head,
    ...(column.number || column.nowrap ? { class: column.number ? "number" : "nowrap" } : {}) };
  if (!cell) return h("td", { ...attributes, "data-value": "" }, h("div", null, "–"));
  const text = cell.href ? h("a", { href: cell.href }, unbroken(cell.text)) : cell.bold ? h("b", null, unbroken(cell.text)) :
    unbroken(cell.text);
  return h("td", { ...attributes, "data-value": String(cell.value ?? cell.text), ...(cell.title ? { title: cell.title } : {}) },
    h("div", null, cell.swatch ? h("span", { class: "swatch", style: `background: ${cell.swatch}` }) : null, text,
      cell.small ? [" ", h("small", null, unbroken(cell.small))] : null));
}

function sortTable(event) {
  const header = event.target.closest("th"), column = header.cellIndex, sign = header.ariaSort === "ascending" ? -1 : 1;
  for (const other of header.parentNode.children) other.ariaSort = null;
  header.ariaSort = sign > 0 ? "ascending" : "descending";
  const value = (row) => row.cells[column].dataset.value;
  const compare = (a, b) =>
    (a === "" || b === "" ? (a === "") - (b === "") : isNaN(a) || isNaN(b) ? sign * a.localeCompare(b) : sign * (a - b));
  const body = header.closest("table").tBodies[0];
  body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b))));
}

// What a reader sees of an element, as one text.
export const textOf = (node) => (typeof node === "object" ? node.children.map(textOf).join("") : String(node));

const SVG = "http://www.w3.org/2000/svg";
export function toDom(node, inSvg = false) {
  if (typeof node !== "object") return document.createTextNode(String(node));
  const svg = inSvg || node.tag === "svg";
  const element = svg ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  for (const [name, value] of Object.entries(node.attributes)) {
    if (name === "chart" || name === "setup") element[name] = value;
    else if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...node.children.map((child) => toDom(child, svg)));
  node.attributes.setup?.(element);
  return element;
}
