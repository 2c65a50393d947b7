// Elements, numbers and lists. Names and messages are text: elements are made with textContent only, never from markup.

const NONE = "–";
const byId = (id) => document.getElementById(id);
const say = (words) => { byId("said").textContent = words; };

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== ""));
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Writes only what has changed, so that selections stay.
const put = (element, words) => { if (element.textContent !== String(words)) element.textContent = words; };
const mark = (element, name, value) => { if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value); };

const fixed = (value, places) => value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
const count = (value) => (value == null ? NONE : Math.round(value).toLocaleString("en"));
const rate = (value) => (value == null ? NONE : value === 0 ? "0" : value < 1 ? fixed(value, 2) : value < 10 ? fixed(value, 1) : fixed(value, 0));

function ms(value) {
  if (value == null) return NONE;
  if (value >= 1000) return `${fixed(value / 1000, value >= 1e5 ? 0 : value >= 1e4 ? 1 : 2)} s`;
  if (value >= 0.1) return `${fixed(value, value >= 100 ? 0 : value >= 10 ? 1 : 2)} ms`;
  return value === 0 ? "0 ms" : `${fixed(value * 1000, value < 0.01 ? 1 : 0)} µs`;
}

function bytes(value) {
  if (value == null) return NONE;
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (value >= size) return `${fixed(value / size, value / size < 10 ? 1 : 0)} ${unit}`;
  }
  return `${value} B`;
}

function age(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
const plural = (number, one) => `${count(number)} ${one}${number === 1 ? "" : "s"}`;
const sum = (values) => values.reduce((all, value) => all + (value || 0), 0);

// Keeps one child for each item `[key, item]`, in order. Children keep their state, and the focus.
function keyed(parent, items, make, draw) {
  const known = parent.known || (parent.known = new Map());
  const gone = new Set(known.keys());
  const focus = document.activeElement;
  items.forEach(([key, item], index) => {
    gone.delete(key);
    if (!known.has(key)) known.set(key, make(item, key));
    const child = known.get(key);
    draw(child, item, key);
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] || null);
  });
  for (const key of gone) {
    known.get(key).remove();
    known.delete(key);
  }
  if (focus !== document.activeElement && parent.contains(focus)) focus.focus({ preventScroll: true });
}

// A table of columns `{ head, make, draw, kind }`. On a narrow screen each row is a card, whose cells name themselves.
// The roles stay where the style makes blocks of rows and cells.
function grid(label, columns, none, kind) {
  const heads = columns.map((column) => h("th", { scope: "col", role: "columnheader", class: column.kind }, column.head));
  const body = h("tbody", { role: "rowgroup" });
  const empty = h("p", { class: "none quiet" }, none || "None");
  const table = h("table", { role: "table", "aria-label": label },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)), body);
  const element = h("div", { class: `grid ${kind || ""}` }, table, empty);
  const make = (item, key) => {
    const cells = columns.map((column) => {
      const cell = h(column.row ? "th" : "td", { role: column.row ? "rowheader" : "cell", scope: column.row && "row", class: column.kind, "data-head": column.row ? null : column.head });
      cell.inner = column.make ? column.make(key, item) : cell;
      if (cell.inner !== cell) cell.append(cell.inner);
      return cell;
    });
    return h("tr", { role: "row" }, cells);
  };
  const draw = (row, item, key) => columns.forEach((column, index) => {
    const { inner } = row.children[index];
    if (column.text) put(inner, column.text(item));
    else column.draw(inner, item, key);
  });
  const fillRows = (items) => {
    table.hidden = items.length === 0;
    empty.hidden = items.length > 0;
    keyed(body, items, make, draw);
  };
  return { element, heads, body, draw: fillRows };
}
