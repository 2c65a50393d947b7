// Errors, requests, processes, and the figures of the whole server.

const ago = (time) => {
  const seconds = Math.max(0, (shown().server.time - time) / 1000);
  return seconds < 1 ? "now" : `${age(seconds)} ago`;
};
const full = (one) => (one.model == null ? "no model" : `${one.model} v${one.version}`);

// Errors, the newest first. An open one stays open.
const errorList = h("div", { class: "errors" });
const noErrors = h("p", { class: "none quiet" }, "No errors. Refused requests are listed while this page is open.");
byId("errors").append(errorList, noErrors);

function makeError(one) {
  const text = h("pre", { tabindex: "0" });
  const facts = h("p", { class: "quiet" });
  const parts = ["when", "repeats", "chip", "model", "message"].map((name) => h("span", { class: name }));
  const element = h("details", { class: one.traceback ? "failure" : "refusal" }, h("summary", {}, parts), facts, text);
  return Object.assign(element, { parts, facts, text });
}

function drawErrors(state) {
  const all = Object.entries(state.errors || {}).sort(([, one], [, two]) => two.time - one.time);
  keyed(errorList, all, makeError, ({ parts, facts, text }, one) => {
    [ago(one.time), one.count > 1 ? `× ${count(one.count)}` : "", one.kind, full(one), one.message.split("\n")[0]].forEach((words, index) => put(parts[index], words));
    parts[2].className = one.traceback || ["handler", "internal"].includes(one.kind) ? "chip bad" : "chip";
    put(facts, [clock(one.time), `${one.protocol} ${one.status}`, one.id && `id ${one.id}`].filter(Boolean).join(" · "));
    put(text, one.traceback ? `${one.message}\n\n${one.traceback}` : one.message);
  });
  noErrors.hidden = all.length > 0;
  const refused = all.filter(([, one]) => !one.traceback).length;
  put(byId("errors-note"), all.length ? `${count(all.length - refused)} with a traceback, ${count(refused)} without; equal ones are counted` : "");
}

// Requests: their time as a bar of queue, handler and the rest.
const REQUEST_PARTS = [["queue", "Queue"], ["handler", "Handler"], ["rest", "Other"]];
const requestColumns = () => [
  { head: "Time", text: (one) => clock(one.time) },
  { head: "Model", kind: "name", text: full },
  { head: "Status", make: () => h("span", { class: "chip" }), draw: (chip, one) => {
    put(chip, one.outcome === "ok" ? `${one.status}` : `${one.status} ${one.outcome}`);
    chip.className = `chip ${one.outcome === "ok" ? "good" : "bad"}`;
  } },
  { head: "Took", kind: "n", text: (one) => ms(one.ms) },
  { head: "Queue, handler, other", kind: "wide", make: () => { const bar = timeBar(REQUEST_PARTS); return Object.assign(bar.element, { draw: bar.draw }); },
    draw: (bar, one) => bar.draw([one.queue, one.handler, Math.max(0, one.ms - one.queue - one.handler)]) },
  { head: "Batch", kind: "n batch", text: (one) => (one.rows ? count(one.rows) : NONE) },
  { head: "Id", kind: "id", text: (one) => one.id || NONE },
];
const lastTable = grid("Last requests", requestColumns(), "No request since this page was opened.", "requests");
const slowTable = grid("Slowest requests", requestColumns(), "No request since this page was opened.", "requests");
byId("last").append(lastTable.element);
byId("slow").append(slowTable.element);

function drawRequests({ requests }) {
  lastTable.draw(Object.entries(requests.last || {}).sort(([one], [two]) => two - one).slice(0, 10));
  slowTable.draw(Object.entries(requests.slowest || {}).sort(([, one], [, two]) => two.ms - one.ms));
}

const processTable = grid("Processes", [
  { head: "Process", row: true, kind: "name", text: (one) => one.what },
  { head: "Number", kind: "n", text: (one) => one.pid },
  { head: "Up", kind: "n", text: (one) => (one.since == null ? NONE : age(Math.max(0, (shown().server.time - one.since) / 1000))) },
  { head: "Memory", kind: "n", text: (one) => bytes(one.rss) },
  { head: "Processors", kind: "n", text: (one) => (one.cpu == null ? NONE : fixed(one.cpu, 2)) },
  { head: "Restarts", kind: "n", text: (one) => (one.restarts == null ? NONE : count(one.restarts)) },
  { head: "Last restart", text: (one) => one.reason || NONE },
]);
byId("processes").append(processTable.element);

function drawProcesses({ server, models: known }) {
  const all = [["server", { what: "server", pid: server.pid, since: server.started, rss: server.rss, cpu: server.cpu }]];
  for (const [key, model] of Object.entries(known)) {
    for (const [index, one] of Object.entries(model.instances || {})) {
      if (!one.pid && !one.restarts) continue;
      all.push([`${key} ${index}`, { ...one, what: `${full({ model: model.name, version: model.version })} #${index}`, pid: one.pid ?? one.state, since: one.loaded }]);
    }
  }
  processTable.draw(all);
  put(byId("processes-note"), `${plural(sum(all.map(([, one]) => one.restarts)), "restart")}`);
}

// The whole server: figures with their past where they have one.
const TILES = [
  ["Requests a second", (state, all) => [rate(sum(all.map((one) => one.rate))), `${plural(sum(all.map((one) => one.requests)), "request")} since the start`], "rate"],
  ["Errors a second", (state, all) => [rate(sum(all.map(failing))), `${count(state.server.refused)} refused before a model`], "errors"],
  ["Highest p99", (state, all) => {
    const worst = all.filter((one) => one.p99 != null).reduce((most, one) => (!most || one.p99 > most.p99 ? one : most), null);
    return [ms(worst && worst.p99), worst ? worst.name : "no requests"];
  }],
  ["Waiting", (state, all) => [count(sum(all.map((one) => one.queue.requests))), `${count(sum(all.map((one) => one.in_flight)))} in flight`], "queue"],
  ["Processors", (state) => [state.server.cpu == null ? NONE : fixed(state.server.cpu, 2), `${count(state.server.threads)} threads`]],
  ["Memory", (state) => [bytes(state.server.rss), `${bytes(state.server.body_bytes)} of requests`]],
  ["Connections", (state) => [count(state.server.connections), `${plural(state.server.viewers, "viewer")} of this page`]],
];
const tiles = TILES.map(([name, , past]) => {
  const small = past && spark(past === "errors" ? "error" : past);
  const [value, words] = [h("b", {}), h("span", { class: "quiet" })];
  byId("tiles").append(h("div", {}, h("dt", {}, name), h("dd", {}, value, small && small.element, words)));
  return { value, words, small, past };
});

function drawTiles(state) {
  const all = Object.values(state.models);
  tiles.forEach(({ value, words, small, past }, index) => {
    const [number, rest] = TILES[index][1](state, all);
    put(value, number);
    put(words, rest);
    if (small && pastOf("")) small.draw(pastOf("")[past]);
  });
}
