// The table of models: one row a version, of which one is selected.

const histories = new Map();
let selected = "";
let order = ["name", 1];

const SERIES = ["time", "rate", "errors", "p50", "p99", "queue"];
const failing = (model) => sum(Object.values(model.errors || {}).map(([, now]) => now));
const restarts = (model) => sum(Object.values(model.instances || {}).map((one) => one.restarts));
const busy = (model) => Object.values(model.instances || {}).filter((one) => one.state === "busy").length;

// Adds a sample of each model. A gap is a sample without values.
function remember(state) {
  for (const key of histories.keys()) if (!state.models[key] && key) histories.delete(key);
  const add = (key, values) => {
    if (!histories.has(key)) histories.set(key, Object.fromEntries(SERIES.map((name) => [name, []])));
    const history = histories.get(key);
    for (const name of SERIES) {
      history[name].push(values ? values[name] : null);
      if (history[name].length > HISTORY) history[name].shift();
    }
  };
  const models = Object.entries(state.models);
  for (const [key, model] of models) {
    add(key, { time: state.server.time, rate: model.rate, errors: failing(model), p50: model.p50, p99: model.p99, queue: model.queue.requests });
  }
  const all = models.map(([, model]) => model);
  add("", { time: state.server.time, rate: sum(all.map((one) => one.rate)), errors: sum(all.map(failing)), queue: sum(all.map((one) => one.queue.requests)) });
}

function rememberGap() {
  for (const history of histories.values()) {
    for (const name of SERIES) {
      history[name].push(null);
      if (history[name].length > HISTORY) history[name].shift();
    }
  }
}

const SORTS = {
  Model: ["name", (model) => model.name], "Req/s": ["rate", (model) => -model.rate], p50: ["p50", (model) => -(model.p50 || 0)],
  p99: ["p99", (model) => -(model.p99 || 0)], "Errors/s": ["errors", (model) => -failing(model)], Queue: ["queue", (model) => -model.queue.requests],
};

function ordered(models) {
  const of = Object.values(SORTS).find(([name]) => name === order[0])[1];
  const names = (one, two) => one.name.localeCompare(two.name, "en", { numeric: true }) || one.version.localeCompare(two.version, "en", { numeric: true });
  return Object.entries(models).sort(([, one], [, two]) => {
    const [first, second] = [of(one), of(two)];
    return order[1] * (first < second ? -1 : first > second ? 1 : 0) || names(one, two);
  });
}

function select(key, focus) {
  selected = key;
  history.replaceState(null, "", `#${encodeURIComponent(key)}`);
  redraw();
  if (focus) for (const button of models.body.querySelectorAll("button")) if (button.dataset.key === key) button.focus();
}

// Up and down go through the models.
function moveSelection(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const buttons = [...models.body.querySelectorAll("button")];
  const next = buttons[buttons.indexOf(event.target) + step];
  if (!step || !next) return;
  event.preventDefault();
  select(next.dataset.key, true);
}

const STATES = { ready: "good", loading: "", unavailable: "bad" };

function queueMeter() {
  const share = h("span", {});
  const words = h("span", { class: "number" });
  const element = h("span", { class: "meter" }, h("span", { class: "bar" }, share), words);
  const draw = ({ queue }) => {
    // The bound that is nearest.
    const bounds = ["requests", "rows", "bytes"].filter((name) => queue[`max_${name}`]).map((name) => [queue[name] / queue[`max_${name}`], name]);
    const [full, name] = bounds.reduce((most, one) => (one[0] > most[0] ? one : most), [0, "requests"]);
    share.style.width = `${Math.min(1, full) * 100}%`;
    element.classList.toggle("full", full >= 0.8);
    put(words, name === "bytes" ? `${bytes(queue.bytes)} / ${bytes(queue.max_bytes)}` : `${count(queue[name])} / ${count(queue[`max_${name}`])}`);
    words.title = name === "requests" ? "waiting requests, and their bound" : `waiting ${name}, and their bound`;
  };
  return Object.assign(element, { draw });
}

function instanceStrip() {
  const boxes = h("span", { class: "boxes", "aria-hidden": "true" });
  const words = h("span", {});
  const element = h("span", { class: "strip" }, boxes, words);
  const draw = (model) => {
    const all = Object.entries(model.instances || {});
    keyed(boxes, all.slice(0, 16), () => h("i", {}), (box, one) => { box.className = one.state.replace(" ", "-"); });
    const odd = all.filter(([, one]) => !["busy", "idle"].includes(one.state));
    put(words, `${busy(model)} / ${all.length} busy${odd.length ? `, ${odd.length} ${odd[0][1].state}` : ""}`);
  };
  return Object.assign(element, { draw });
}

const sparkCell = () => {
  const small = spark("rate");
  return Object.assign(h("span", { class: "with-spark" }, h("span", { class: "number" }), small.element), { small });
};

const models = grid("Models", [
  { head: "Model", row: true, kind: "name",
    make: (key) => h("button", { type: "button", "data-key": key, onclick: () => select(key), onkeydown: moveSelection }, h("span", {}), h("span", { class: "version" })),
    draw: (button, model, key) => {
      put(button.children[0], model.name);
      put(button.children[1], `v${model.version}`);
      mark(button, "aria-pressed", key === selected);
    } },
  { head: "State", make: () => h("span", { class: "chip" }), draw: (chip, model) => {
    put(chip, model.state);
    chip.className = `chip ${STATES[model.state]}`;
    chip.title = model.why || "";
  } },
  { head: "Req/s", kind: "n wide", make: sparkCell, draw: (cell, model, key) => {
    put(cell.firstChild, rate(model.rate));
    if (pastOf(key)) cell.small.draw(pastOf(key).rate);
  } },
  { head: "p50", kind: "n", text: (model) => ms(model.p50) },
  { head: "p99", kind: "n", text: (model) => ms(model.p99) },
  { head: "Errors/s", kind: "n", make: () => h("span", {}), draw: (cell, model) => {
    put(cell, rate(failing(model)));
    cell.className = failing(model) > 0 ? "alarm" : "";
  } },
  { head: "Queue", make: queueMeter, draw: (meter, model) => meter.draw(model) },
  { head: "Batch", kind: "n", text: (model) => (model.batches.mean == null ? NONE : `${rate(model.batches.mean)} / ${model.batches.max}`) },
  { head: "Time of a request", kind: "wide", make: () => { const bar = timeBar(); return Object.assign(h("span", { class: "time-cell" }, bar.element, h("span", { class: "number" })), { bar }); },
    draw: (cell, model) => { cell.bar.draw(model.time); put(cell.lastChild, model.time[0] == null ? NONE : ms(sum(model.time))); } },
  { head: "Instances", make: instanceStrip, draw: (strip, model) => strip.draw(model) },
], "No model is served now.");

// Versions of repositories that load, or could not.
const others = grid("Not serving", [
  { head: "Model", row: true, kind: "name", text: (one) => `${one.name} v${one.version}` },
  { head: "State", make: () => h("span", { class: "chip" }), draw: (chip, one) => {
    put(chip, one.state);
    chip.className = `chip ${STATES[one.state] || ""}`;
  } },
  { head: "Reason", kind: "reason", text: (one) => one.why || NONE },
]);

// The heads of some columns sort by them.
for (const head of models.heads) {
  const sort = SORTS[head.textContent];
  if (!sort) continue;
  const [name] = sort;
  const press = () => {
    order = [name, order[0] === name ? -order[1] : 1];
    redraw();
  };
  head.replaceChildren(h("button", { type: "button", onclick: press }, head.textContent));
  head.sort = name;
}

byId("models").append(models.element);
byId("others").append(others.element);

function drawModels(state) {
  for (const head of models.heads) {
    if (head.sort) mark(head, "aria-sort", head.sort !== order[0] ? "none" : (head.sort === "name") === (order[1] > 0) ? "ascending" : "descending");
  }
  models.draw(ordered(state.models));
  for (const button of models.body.querySelectorAll("button")) button.closest("tr").classList.toggle("selected", button.dataset.key === selected);
  const idle = Object.entries(state.others || {});
  byId("others").hidden = idle.length === 0;
  others.draw(idle);
  const shown = Object.keys(state.models).length;
  put(byId("models-note"), `${plural(shown, "version")}${shown < state.server.models ? ` of ${count(state.server.models)}` : ""}; figures of the last 10 s, rates of the last second`);
}
