// The views of a model, of all models and of all routes.

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

// Other versions of the model, and whether they take the same.
function versions(model) {
  const others = models.filter((one) => one.model === model.model && one !== model);
  const links = others.flatMap((one) => [" ", h("a", { href: target(one) }, one.version), one.types === model.types ? " (same types)" : ""]);
  return others.length ? h("p", { class: "facts" }, "Other versions:", links) : null;
}

function modelView(model) {
  const opened = (draw) => {
    let nodes;
    return () => (nodes ??= draw(model));
  };
  const views = [["Form", opened(plainView)], ["Tensors", opened(signatureView)]];
  return [
    h("div", { class: "title" }, h("h1", {}, model.model), chip("plain", `version ${model.version}`),
      readiness(`/v2/models/${encodeURIComponent(model.model)}/versions/${encodeURIComponent(model.version)}/ready`),
      ...kinds(model)),
    model.description && prose(model.description),
    numbers(model),
    ...(model.open ? openView(model) : [h("p", { class: "facts" }, facts(model))]),
    versions(model),
    ...(model.open ? [] : model.plain ? tabs("Ways to ask", "view", views).nodes : signatureView(model)),
  ];
}

function facts(model) {
  const rows = model.max_rows === null
    ? "Each request is one call."
    : `A request has up to ${counted(model.max_rows, "row")}; rows of several requests may share a call.`;
  const pieces = model.streams ? " Its answer comes in pieces, as they are made." : "";
  const together = model.sequences ? " Requests of one sequence share a state, which the model keeps between them." : "";
  return rows + pieces + together;
}

function signatureView(model) {
  const axes = [...model.inputs, ...model.outputs].flatMap((tensor) => tensor.shape);
  const under = model.max_rows !== null
    ? "-1 is an axis of any size. The first axis is the rows."
    : axes.includes(-1) ? "-1 is an axis of any size." : "";
  const clients = [["penstock", penstock], ["curl", curl], ...(model.streams ? [] : [["tritonclient", triton]])]
    .map(([name, lines]) => [name, () => code(lines(model))]);
  return [
    ...tensors("Inputs", model.inputs),
    ...tensors("Outputs", model.outputs),
    under && h("p", { class: "under" }, under),
    known(model),
    h("h2", {}, "Ask it"),
    ...tabs("Clients", "panel", clients).nodes,
    ...attempt(model),
  ];
}

const kinds = (model) => [model.streams && chip("plain", "streams"), model.sequences && chip("plain", "sequences"), model.open && chip("plain", "open")].filter(Boolean);

function overview() {
  const lines = (all) => all.map((one) => h("span", { class: "line" }, one.name, " ", h("span", { class: "mono quiet" }, `${one.datatype} ${shapeText(one.shape)}`)));
  const shown = (model, all) => model.open && !all.length ? ["any"] : lines(all);
  const same = (model) => folded(models.filter((one) => one.under === model), (one) => h("a", { class: "line", href: target(one) }, one.version));
  const rows = models.filter((model) => !model.under).map((model) => h("tr", { "data-search": searched(model) },
    h("td", { class: "name" }, h("a", { href: target(model) }, model.model), " ", kinds(model)),
    h("td", {}, model.version, same(model)), h("td", {}, [...shown(model, model.inputs), ...model.routes.map((route) => h("span", { class: "line mono quiet" }, route))]),
    h("td", {}, shown(model, model.outputs))));
  const distinct = counted(new Set(models.map((model) => model.model)).size, "model");
  return [
    h("div", { class: "title" }, h("h1", {}, "Models")),
    h("p", { class: "facts" }, models.length ? `${distinct}. -1 is an axis of any size.` : "No model is served now. Those that are loaded later show when this page is loaded again."),
    models.length ? table(["Model", "Version", "Inputs", "Outputs"], rows, "stack") : null,
  ];
}

// Versions of the same types as one that is shown, behind a line that opens.
function folded(all, draw) {
  return all.length ? h("details", { class: "folded" }, h("summary", {}, `${counted(all.length, "more version")}`), all.map(draw)) : null;
}

function routesView() {
  const rows = (all) => table(["Method", "Path", "Summary"], all.map((route) => h("tr", { id: route.id, tabindex: "-1", "data-search": searchedRoute(route) },
    h("td", { class: "mono" }, route.method), h("td", { class: "mono" }, route.path), h("td", { class: "quiet" }, route.summary))), "stack");
  // What models add themselves comes first: their own routes, and OpenAI's.
  const tags = [...api.tags].sort((a, b) => (b.name === "routes of models") - (a.name === "routes of models"));
  return [
    h("div", { class: "title" }, h("h1", {}, "Routes")),
    prose(api.info.description),
    h("p", { class: "facts" }, counted(routes.length, "route")),
    ...tags.map((tag) => {
      const [always, versioned] = [false, true].map((has) => routes.filter((route) => route.tag === tag.name && /\/versions\//.test(route.path) === has));
      if (!always.length && !versioned.length) return null;
      return h("section", {},
        h("h2", {}, tag.name[0].toUpperCase() + tag.name.slice(1)), tag.description ? h("p", { class: "facts" }, tag.description) : null,
        always.length ? rows(always) : null,
        versioned.length ? h("details", { class: "folded" }, h("summary", {}, `${counted(versioned.length, "route")} with a version`), rows(versioned)) : null);
    }),
  ];
}
