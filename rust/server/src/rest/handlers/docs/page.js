// The views, and which of them is shown.

let api;
let models = [];
// Why the server told nothing of itself, or what a key is asked for.
let refusal = "";

function tensors(title, all) {
  if (!all.length) return [h("h2", {}, title), h("p", { class: "quiet" }, "None.")];
  const notes = (tensor) => [tensor.optional && "may be left out", tensor.schema && "one JSON document"].filter(Boolean).join(", ");
  const noted = all.some(notes);
  const rows = all.map((tensor) => h("tr", {},
    h("td", { class: "name" }, tensor.name),
    h("td", { class: "mono" }, tensor.datatype),
    h("td", { class: "mono" }, shapeText(tensor.shape)),
    noted ? h("td", { class: "quiet" }, notes(tensor)) : null));
  const schemas = all.filter((tensor) => tensor.schema).map((tensor) => {
    const schema = layOut(JSON.stringify(api.components.schemas[tensor.schema]));
    return h("details", {}, h("summary", {}, "Schema of the document ", h("code", {}, tensor.name)), code(schema));
  });
  return [h("h2", {}, title), table(["Name", "Datatype", "Shape", ...(noted ? ["Notes"] : [])], rows, "tensors"), ...schemas];
}

// The parameters that the server itself understands, as its document describes them.
function known(model) {
  const all = api.components.schemas.RequestParameters.properties;
  const sequence = model.sequences ? ["sequence_id", "sequence_start", "sequence_end"] : [];
  const names = [...sequence, ...Object.keys(all).filter((name) => !name.startsWith("sequence_"))];
  const rows = names.map((name) => [name, all[name] || {}]).map(([name, schema]) => h("tr", {},
    h("td", { class: "name" }, name),
    h("td", { class: "mono" }, [schema, ...(schema.anyOf || [])].map((one) => one.type).filter(Boolean).join(" | ")),
    h("td", { class: "quiet" }, marked(schema.description || ""))));
  return h("details", { open: model.sequences }, h("summary", {}, "Parameters of a request"), table(["Name", "Type", "Meaning"], rows, "stack"));
}

// A model that takes requests as they are: of its tensors is known what it says, and its routes are its own.
function openView(model) {
  const rows = model.routes.map((route) => h("tr", {}, route.split(/ (.*)/).slice(0, 2).map((part) => h("td", { class: "mono" }, part))));
  return [
    h("p", { class: "facts" }, `It ${model.inputs.length ? "looks at its tensors itself" : "takes any tensors"}, and answers each request by itself.${model.streams ? " Its answer may come in pieces, as they are made." : ""}`),
    ...(model.inputs.length ? tensors("Inputs", model.inputs) : []),
    ...(model.outputs.length ? tensors("Outputs", model.outputs) : []),
    h("h2", {}, "Routes of its own"),
    rows.length ? table(["Method", "Path"], rows, "stack") : h("p", { class: "quiet" }, "None."),
  ];
}

function modelView(model) {
  return [
    h("div", { class: "title" }, h("h1", {}, model.model), chip("plain", `version ${model.version}`),
      readiness(`/v2/models/${encodeURIComponent(model.model)}/versions/${encodeURIComponent(model.version)}/ready`),
      ...kinds(model)),
    model.description && prose(model.description),
    ...(model.open ? openView(model) : signatureView(model)),
  ];
}

function signatureView(model) {
  const rows = model.max_rows === null
    ? "Each request is one call."
    : `A request has up to ${counted(model.max_rows, "row")}; rows of several requests may share a call.`;
  const pieces = model.streams ? " Its answer comes in pieces, as they are made." : "";
  const together = model.sequences ? " Requests of one sequence share a state, which the model keeps between them." : "";
  const axes = [...model.inputs, ...model.outputs].flatMap((tensor) => tensor.shape);
  const under = model.max_rows !== null
    ? "-1 is an axis of any size. The first axis is the rows."
    : axes.includes(-1) ? "-1 is an axis of any size." : "";
  const clients = [["penstock", penstock(model)], ["curl", curl(model)], ...(model.streams ? [] : [["tritonclient", triton(model)]])];
  return [
    h("p", { class: "facts" }, rows + pieces + together),
    ...tensors("Inputs", model.inputs),
    ...tensors("Outputs", model.outputs),
    under && h("p", { class: "under" }, under),
    known(model),
    h("h2", {}, "Ask it"),
    ...tabs("Clients", clients),
    ...attempt(model),
  ];
}

const kinds = (model) => [model.streams && chip("plain", "streams"), model.sequences && chip("plain", "sequences"), model.open && chip("plain", "open")].filter(Boolean);

function overview() {
  const lines = (all) => all.map((one) => h("span", { class: "line" }, one.name, " ", h("span", { class: "mono quiet" }, `${one.datatype} ${shapeText(one.shape)}`)));
  const shown = (model, all) => model.open && !all.length ? ["any"] : lines(all);
  const rows = models.map((model) => h("tr", {},
    h("td", { class: "name" }, h("a", { href: target(model) }, model.model), " ", kinds(model)),
    h("td", {}, model.version), h("td", {}, [...shown(model, model.inputs), ...model.routes.map((route) => h("span", { class: "line mono quiet" }, route))]),
    h("td", {}, shown(model, model.outputs))));
  const distinct = counted(new Set(models.map((model) => model.model)).size, "model");
  return [
    h("div", { class: "title" }, h("h1", {}, "Models")),
    h("p", { class: "facts" }, models.length ? `${distinct}. -1 is an axis of any size.` : "No model is served now. Those that are loaded later show when this page is loaded again."),
    models.length ? table(["Model", "Version", "Inputs", "Outputs"], rows, "stack") : null,
  ];
}

function routesView() {
  const rows = Object.entries(api.paths).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) =>
    h("tr", {}, h("td", { class: "mono" }, method.toUpperCase()), h("td", { class: "mono" }, path), h("td", { class: "quiet" }, operation.summary))));
  return [
    h("div", { class: "title" }, h("h1", {}, "Routes")),
    prose(api.info.description),
    h("h2", {}, counted(rows.length, "route")),
    table(["Method", "Path", "Summary"], rows, "stack"),
  ];
}

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
  return [...found.values()].sort((a, b) => a.model.localeCompare(b.model, "en", { numeric: true }) || a.version.localeCompare(b.version, "en", { numeric: true }));
}

function drawSide() {
  const item = (href, words, version) => h("li", {}, h("a", { href }, words, version ? h("span", { class: "version" }, version) : null));
  const list = h("ul", {}, models.map((model) => item(target(model), model.model, `v${model.version}`)));
  const filter = h("input", { type: "search", placeholder: "Find a model", "aria-label": "Find a model" });
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    models.forEach((model, index) => { list.children[index].hidden = !model.model.toLowerCase().includes(wanted); });
  });
  byId("side").replaceChildren(
    h("p", { class: "label" }, "Server"),
    h("ul", {}, api ? [item("#all", "Overview"), item("#routes", "Routes")] : [], item("#access", "Access", secrets.size ? "key set" : "")),
    ...(models.length ? [h("p", { class: "label" }, "Models"), models.length > 10 ? filter : "", list] : []));
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
  const view = isAccess ? accessView(refusal, changed) : hash === "#routes" ? routesView() : model ? modelView(model) : overview();
  byId("main").replaceChildren(...view.filter(Boolean));
  const current = isAccess ? "#access" : model ? target(model) : hash === "#routes" ? hash : "#all";
  for (const link of byId("side").querySelectorAll("a")) {
    if (link.getAttribute("href") === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = model ? `${model.model} · ${api.info.title}` : api ? api.info.title : "Penstock";
}

async function load() {
  const answer = await ask(source);
  api = undefined;
  models = [];
  refusal = "";
  if (answer.ok) {
    api = await answer.json();
    models = read(api);
  } else {
    const said = await answer.json().catch(() => ({}));
    if (answer.status !== 403) throw new Error(said.error || `${source} answered ${answer.status}`);
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
  byId("main").focus({ preventScroll: true });
});

load().catch(failed);
