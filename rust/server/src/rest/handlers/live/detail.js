// The selected model: charts, time, batches, instances, errors by kind.

const REASONS = {
  full: "maximum size", cost: "maximum cost", preferred: "preferred size", idle: "an instance was idle", returned: "expected clients returned",
  "hold-expired": "expected clients did not return", delay: "max_delay", deadline: "a deadline", target: "target_p99", duration: "max_duration", drain: "the server drains",
};

const requestsChart = chart("Requests a second", rate, [{ name: "all", kind: "rate", of: "rate", area: true }, { name: "errors", kind: "error", of: "errors" }]);
const latencyChart = chart("Latency", ms, [{ name: "p50", kind: "low", of: "p50" }, { name: "p99", kind: "high", of: "p99" }]);
const queueChart = chart("Waiting requests", count, [{ name: "queue", kind: "queue", of: "queue", area: true }]);

const partRows = PARTS.map(([kind, name]) => {
  const value = h("td", { class: "n" });
  const share = h("td", { class: "n quiet" });
  return { row: h("tr", {}, h("th", { scope: "row" }, h("i", { class: `key ${kind}` }), name), value, share), value, share };
});
const whole = timeBar();
const wholeTime = h("b", {});
const timePanel = h("figure", { class: "time" }, h("figcaption", {}, h("h3", {}, "Time of a request"), h("span", { class: "legend" }, wholeTime)), whole.element,
  h("table", { class: "plain" }, h("thead", { class: "unseen" }, h("tr", {}, ["Part", "Mean", "Share"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, partRows.map(({ row }) => row))));

const sizeBars = bars("Batches by rows");
const reasonBars = bars("Batches by the reason for their cut");
const batchWords = h("b", {});
const noBatches = h("p", { class: "none quiet" }, "No batches in the last 10 s");
const batchPanel = h("figure", {}, h("figcaption", {}, h("h3", {}, "Batches"), h("span", { class: "legend" }, batchWords)), noBatches,
  h("div", { class: "halves" }, h("div", {}, h("h4", {}, "Rows"), sizeBars.element), h("div", {}, h("h4", {}, "Cut because"), reasonBars.element)));

const kinds = grid("Errors by kind", [
  { head: "Kind", row: true, text: ([kind]) => kind },
  { head: "All", kind: "n", text: ([, [all]]) => count(all) },
  { head: "A second", kind: "n", text: ([, [, now]]) => rate(now) },
], "None since the start");
const kindPanel = h("figure", {}, h("figcaption", {}, h("h3", {}, "Errors by kind")), kinds.element);

const instanceTable = grid("Instances", [
  { head: "Instance", row: true, make: () => h("span", { class: "instance" }, h("i", {}), h("span", {})), draw: (cell, one, key) => {
    cell.firstChild.className = `box ${one.state.replace(" ", "-")}`;
    put(cell.lastChild, `#${key}`);
  } },
  { head: "State", text: (one) => (one.state !== "busy" ? one.state : one.running > 1 ? `busy, ${one.running} batches` : `busy, ${plural(one.rows, "row")}`) },
  { head: "For", kind: "n", text: (one) => (one.since == null ? NONE : age(Math.max(0, (shown().server.time - one.since) / 1000))) },
  { head: "Batches", kind: "n", text: (one) => count(one.batches) },
  { head: "Process", kind: "n", text: (one) => one.pid ?? NONE },
  { head: "Memory", kind: "n", text: (one) => bytes(one.rss) },
  { head: "Restarts", kind: "n", text: (one) => (one.restarts ? `${count(one.restarts)} (${one.reason})` : one.pid ? "0" : NONE) },
]);
const instancePanel = h("figure", {}, h("figcaption", {}, h("h3", {}, "Instances"), h("span", { class: "legend" })), instanceTable.element);

// The charts as a table, a row for each 10 seconds: drawn while it is open.
const ROWS = 30;
const figures = grid("Figures of the charts", [
  { head: "Time", row: true, text: (one) => clock(one.time) },
  { head: "Req/s", kind: "n", text: (one) => rate(one.rate) },
  { head: "Errors/s", kind: "n", text: (one) => rate(one.errors) },
  { head: "p50", kind: "n", text: (one) => ms(one.p50) },
  { head: "p99", kind: "n", text: (one) => ms(one.p99) },
  { head: "Waiting", kind: "n", text: (one) => count(one.queue) },
], "Nothing yet");
const figuresPanel = h("details", { class: "figures", ontoggle: () => redraw() }, h("summary", {}, "Figures of the charts as a table"), figures.element);

const detailTitle = h("h2", { id: "detail-title" });
const detailWords = h("span", { class: "quiet" });
byId("detail").append(h("div", { class: "head" }, detailTitle, detailWords),
  h("div", { class: "panels" }, requestsChart.element, latencyChart.element, queueChart.element, timePanel, batchPanel, kindPanel),
  instancePanel, figuresPanel);

// Buckets of sizes: 1, 2, 3 to 4, 5 to 8 and so on.
function sizeName(index) {
  if (index === 0) return "1";
  if (index > 10) return "over 1024";
  return index === 1 ? "2" : `${2 ** (index - 1) + 1}–${2 ** index}`;
}

function drawBatches({ batches }) {
  const sizes = batches.sizes.map((value, index) => [index, { name: sizeName(index), value }]).filter(([, { value }]) => value > 0);
  const reasons = Object.entries(batches.reasons).map(([name, value]) => [name, { name, value, note: REASONS[name] }]);
  sizeBars.draw(sizes);
  reasonBars.draw(reasons.sort(([, one], [, two]) => two.value - one.value));
  noBatches.hidden = sizes.length > 0;
  batchPanel.lastChild.hidden = sizes.length === 0;
  put(batchWords, batches.mean == null ? "" : `${rate(batches.rate)} a second, ${rate(batches.mean)} rows of ${batches.max}`);
}

function drawDetail(state) {
  const model = state.models[selected];
  byId("detail").hidden = !model;
  if (!model) return;
  const past = pastOf(selected);
  put(detailTitle, `${model.name} v${model.version}`);
  const facts = [plural(model.requests, "request"), `${count(model.in_flight)} in flight`, `${rate(model.handler)} handlers busy`, `GIL held ${fixed(model.gil * 100, 0)} %`];
  if (model.abandoned) facts.push(`${count(model.abandoned)} abandoned`);
  if (model.wasted > 0) facts.push(`${rate((model.wasted / model.handler) * 100)} % of handler time wasted`);
  if (model.tokens != null) facts.push(`${rate(model.tokens)} tokens a second generated`);
  if (model.why) facts.push(model.why);
  put(detailWords, facts.join(" · "));
  if (past) for (const one of [requestsChart, latencyChart, queueChart]) one.draw(past);
  const all = sum(model.time);
  whole.draw(model.time);
  put(wholeTime, model.time[0] == null ? "no requests" : `${ms(all)} in the server, mean`);
  partRows.forEach(({ value, share }, index) => {
    put(value, ms(model.time[index]));
    put(share, all > 0 ? `${Math.round((model.time[index] / all) * 100)} %` : "");
  });
  drawBatches(model);
  kinds.draw(Object.entries(model.errors || {}).map((one) => [one[0], one]));
  instanceTable.draw(Object.entries(model.instances || {}));
  put(instancePanel.querySelector(".legend"), `${busy(model)} busy${restarts(model) ? `, ${plural(restarts(model), "restart")}` : ""}`);
  if (figuresPanel.open && past) {
    const rows = [];
    for (let at = past.time.length - 1; at >= 0 && rows.length < ROWS; at -= 10) {
      if (past.time[at] != null) rows.push([past.time[at], Object.fromEntries(SERIES.map((name) => [name, past[name][at]]))]);
    }
    figures.draw(rows);
  }
}
