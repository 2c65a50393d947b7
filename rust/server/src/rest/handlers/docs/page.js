// What the server's document says, and which view is shown.

let api;
let models = [];
let routes = [];
// Why the server told nothing of itself, or what a key is asked for.
let refusal = "";

const target = (model) => `#${encodeURIComponent(model.model)}/${encodeURIComponent(model.version)}`;

function read(described) {
  const found = new Map();
  for (const [path, item] of Object.entries(described.paths)) {
    const about = item.post && item.post["x-penstock"];
    // A name that begins with a colon is in no list: such a model answers routes for others.
    if (!about || about.model.startsWith(":")) continue;
    const key = JSON.stringify([about.model, about.version]);
    // One answer before a stream of them, a path without a version before one with it.
    const rank = about.streams * 1e4 + path.length;
    if (!found.has(key) || rank < found.get(key).rank) found.set(key, { ...about, path, rank });
  }
  const all = [...found.values()].sort((a, b) => a.model.localeCompare(b.model, "en", { numeric: true }) || a.version.localeCompare(b.version, "en", { numeric: true }));
  for (const model of all) {
    const plain = model.path.replace(/^\/v2(.*)\/infer(_stream)?$/, "$1");
    const operation = (described.paths[plain] || {}).post;
    // Requests of a sequence have parameters, which plain ones lack.
    model.plain = operation && !model.open && !model.sequences ? plain : "";
    model.media = operation ? Object.keys(operation.responses[200].content).find((type) => !/json$|event-stream$/.test(type)) : undefined;
    model.types = types(model, described.components.schemas);
  }
  for (const model of all) {
    const alike = all.filter((one) => one.model === model.model && one.types === model.types);
    const first = alike.find((one) => one.is_default) || alike.at(-1);
    model.under = first === model ? null : first;
  }
  return all;
}

// The types of a version, the same text for those that take and give the same.
function types(model, schemas) {
  const tensors = [...model.inputs, ...model.outputs];
  const keys = tensors.map((one) => one.schema).filter(Boolean);
  const all = text([tensors, keys.map((key) => schemas[key]), model.max_rows, model.streams, model.sequences, model.open, model.routes]);
  return keys.reduce((left, key, index) => left.replaceAll(key, `document ${index}`), all);
}

function readRoutes(described) {
  return Object.entries(described.paths).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) =>
    ({ method: method.toUpperCase(), path, summary: operation.summary, tag: operation.tags[0], id: `route ${method} ${path}`.replaceAll(" ", "_") })));
}

function drawTop() {
  const links = h("span", { class: "links" }, h("a", { href: `${base}${source}` }, "openapi.json"), h("a", { href: `${base}/metrics` }, "metrics"));
  byId("top").replaceChildren(
    h("a", { class: "brand", href: "#" }, api ? api.info.title : "Penstock"),
    api ? h("span", { class: "quiet version" }, api.info.version) : "",
    readiness("/v2/health/ready"),
    // A link cannot carry a key.
    secrets.size || !api ? "" : links);
}

function draw() {
  const hash = location.hash;
  const model = models.find((one) => target(one) === hash) || (hash === "" && models.length === 1 ? models[0] : null);
  const isAccess = !api || hash === "#access";
  const isRoutes = hash.split("/")[0] === "#routes";
  const view = isAccess ? accessView(refusal, changed) : model ? modelView(model) : isRoutes ? routesView() : overview();
  byId("main").replaceChildren(...view.filter(Boolean));
  search();
  const current = isAccess ? "#access" : model ? target(model) : isRoutes ? "#routes" : "#all";
  for (const link of byId("side").querySelectorAll("a")) {
    if (link.getAttribute("href") === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (link.closest("details") && link.hasAttribute("aria-current")) link.closest("details").open = true;
  }
  document.title = model ? `${model.model} · ${api.info.title}` : api ? api.info.title : "Penstock";
}

async function load() {
  const answer = await ask(source);
  api = undefined;
  models = [];
  routes = [];
  refusal = "";
  if (answer.ok) {
    api = await answer.json();
    models = read(api);
    routes = readRoutes(api);
  } else {
    const said = await answer.json().catch(() => ({}));
    if (!wantsKey(answer)) throw new Error(said.error || `${source} answered ${answer.status}`);
    refusal = said.error || "The server asks for a key.";
  }
  drawTop();
  drawSide();
  draw();
}

const failed = (error) => {
  drawTop();
  const again = h("button", { type: "button", class: "send", onclick: () => load().catch(failed) }, "Try again");
  byId("main").replaceChildren(notice(`This page could not read the server's description: ${error.message}`), again);
};

const changed = () => load().then(() => say(api ? "The server answers" : refusal)).catch(failed);

addEventListener("hashchange", () => {
  draw();
  if (api) refusal = "";
  scrollTo(0, 0);
  const row = location.hash.startsWith("#routes/") && byId(decodeURIComponent(location.hash.slice(8)));
  if (row) {
    if (row.closest("details")) row.closest("details").open = true;
    row.scrollIntoView({ block: "center" });
  }
  (row || byId("main")).focus({ preventScroll: true });
});

load().catch(failed);
