// Charts as SVG: the colours follow the style, and each has its figures in words.

// Seconds that charts cover.
const HISTORY = 300;
const WIDTH = 600;
const PARTS = [["queue", "Queue"], ["wait", "Interpreter wait"], ["handler", "Handler"], ["encode", "Encode"]];

// The least of 1, 2 and 5 times a power of ten that is not below a value.
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((top) => top >= value * 0.999);
}

// The path of a series, which ends at the right. A missing value interrupts it. `closed`: down to the base line.
function path(values, top, height, closed) {
  const step = WIDTH / (HISTORY - 1);
  let d = "";
  let from = null;
  const end = (index) => {
    if (closed && from != null) d += `L${((index - 1) * step).toFixed(1)} ${height}L${from} ${height}Z`;
    from = null;
  };
  values.forEach((value, at) => {
    const index = HISTORY - values.length + at;
    if (value == null) return end(index);
    const x = (index * step).toFixed(1);
    d += `${from == null ? "M" : "L"}${x} ${(height - Math.min(1, value / top) * height).toFixed(1)}`;
    if (from == null) {
      from = x;
      if (!closed) d += "h.1";
    }
  });
  end(HISTORY);
  return d;
}

function spark(kind) {
  const area = svg("path", { class: `area ${kind}` });
  const line = svg("path", { class: `line ${kind}` });
  const element = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} 40`, preserveAspectRatio: "none", "aria-hidden": "true" }, area, line);
  const draw = (values) => {
    const top = Math.max(...values.filter((value) => value != null), 1e-9) * 1.1;
    area.setAttribute("d", path(values, top, 40, true));
    line.setAttribute("d", path(values, top, 40));
  };
  return { element, draw };
}

// A chart of series `{ name, kind, of, area }` over the history of a model. Pointing at it shows the values of that time.
function chart(title, format, series) {
  const height = 120;
  const drawn = series.map(({ kind, area }) => ({
    area: area && svg("path", { class: `area ${kind}` }), line: svg("path", { class: `line ${kind}` }),
  }));
  const cursor = svg("path", { class: "cursor" });
  const rules = svg("path", { class: "rules", d: [0, 0.5].map((y) => `M0 ${y * height}H${WIDTH}`).join("") });
  const plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img" },
    rules, drawn.flatMap(({ area, line }) => [area, line]).filter(Boolean), cursor);
  const top = h("span", { class: "top" });
  const when = h("span", {}, "now");
  const values = series.map(() => h("b", {}));
  const legend = h("span", { class: "legend" }, series.map(({ name, kind }, index) => h("span", {}, h("i", { class: `key ${kind}` }), name, " ", values[index])));
  const element = h("figure", {}, h("figcaption", {}, h("h3", {}, title), legend),
    h("div", { class: "plot" }, plot, top), h("div", { class: "axis", "aria-hidden": "true" }, h("span", {}, "5 min ago"), when));
  let at = null;
  let past = null;
  const draw = (history) => {
    past = history;
    const all = series.map(({ of }) => history[of]);
    const most = ceiling(Math.max(0, ...all.flat().filter((value) => value != null)));
    drawn.forEach(({ area, line }, index) => {
      line.setAttribute("d", path(all[index], most, height));
      if (area) area.setAttribute("d", path(all[index], most, height, true));
    });
    put(top, format(most));
    const place = at == null ? all[0].length - 1 : at - (HISTORY - all[0].length);
    series.forEach(({ name }, index) => put(values[index], format(all[index][place])));
    put(when, at == null || !(place >= 0) ? "now" : `${HISTORY - 1 - at} s ago`);
    cursor.setAttribute("d", at == null ? "" : `M${(at * WIDTH) / (HISTORY - 1)} 0V${height}`);
    mark(plot, "aria-label", `${title}: ${series.map(({ name }, index) => `${name} ${values[index].textContent}`).join(", ")}; at most ${top.textContent}`);
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    at = Math.max(0, Math.min(HISTORY - 1, Math.round(((event.clientX - box.left) / box.width) * (HISTORY - 1))));
    if (past) draw(past);
  });
  plot.addEventListener("pointerleave", () => { at = null; if (past) draw(past); });
  return { element, draw };
}

// One bar of the parts of a request's time, in milliseconds. `own` are other parts than those of the server.
function timeBar(parts) {
  const shares = (parts || PARTS).map(([kind]) => h("span", { class: kind }));
  const element = h("span", { class: "times", role: "img" }, shares);
  const draw = (values) => {
    const whole = sum(values || []);
    shares.forEach((share, index) => { share.style.flexGrow = whole > 0 ? Math.max(0, values[index] || 0) / whole : 0; });
    mark(element, "aria-label", whole > 0 ? (parts || PARTS).map(([, name], index) => `${name} ${ms(values[index])}`).join(", ") : "no requests");
    element.title = element.getAttribute("aria-label");
  };
  return { element, draw };
}

// Bars with a name and a number each.
function bars(label) {
  const element = h("ul", { class: "bars", "aria-label": label });
  const make = () => h("li", {}, h("span", { class: "label" }), h("span", { class: "bar" }, h("span", {})), h("span", { class: "number" }));
  const draw = (items) => {
    const most = Math.max(1, ...items.map(([, { value }]) => value));
    const whole = Math.max(1, sum(items.map(([, { value }]) => value)));
    keyed(element, items, make, (row, { name, value, note }) => {
      put(row.children[0], name);
      row.children[0].title = note || "";
      row.children[1].firstChild.style.width = `${(value / most) * 100}%`;
      put(row.children[2], `${Math.round((value / whole) * 100)} %`);
    });
  };
  return { element, draw };
}
