// The form of a plain request: a field for each input of the model.

// A value of the example's size, where it is too long to show.
function filled(input) {
  const axes = [...input.example_shape].reverse();
  return () => axes.reduce((inner, axis) => `[${Array(axis).fill(inner).join(", ")}]`, input.schema ? sample(input) : text(sample(input)));
}

// The form of a model's values, and what its fields hold now.
function plainFields(model) {
  const body = api.paths[model.plain].post.requestBody.content;
  const schema = resolve(body["application/json"].schema);
  const parts = body["multipart/form-data"] ? body["multipart/form-data"].schema.properties : {};
  const examples = body["application/json"].examples ? body["application/json"].examples.request.value : {};
  const isLong = elements(model) > MOST_SHOWN;
  const fields = model.inputs.map((input) => {
    const required = !input.optional;
    const isFile = Boolean(parts[input.name] && parts[input.name].contentMediaType);
    const generate = isLong && required ? filled(input) : null;
    const options = { required, isFile, example: examples[input.name], generate, accept: (input.media_type || "").startsWith("image/") ? "image/*" : null };
    return { input, ...field(input.name, schema.properties[input.name], options) };
  });
  // Elements of text are a part each; any other value is JSON.
  const textParts = (input, json) => (input.datatype === "BYTES" && !input.schema ? [JSON.parse(json)].flat(Infinity).map(String) : [json]);
  const values = () => fields.map(({ input, read, files, many }) => ({ name: input.name, json: read(), files: files ? files() : [], many, input }))
    .filter((value) => value.json !== undefined || value.files.length)
    .map((value) => ({ ...value, texts: value.json === undefined ? [] : textParts(value.input, value.json) }));
  return { fields, values };
}

const objectOf = (values) => `{${values.map(({ name, json }) => `${text(name)}: ${json}`).join(", ")}}`;
const hasFiles = (values) => values.some(({ files }) => files.length);

function formOf(values) {
  const form = new FormData();
  for (const { name, files, texts } of values) [...files, ...texts].forEach((part) => form.append(name, part));
  return form;
}

function plainView(model) {
  const { fields, values } = plainFields(model);
  const form = h("form", { class: "values", novalidate: true, onsubmit: (event) => event.preventDefault() },
    fields.length ? fields.map((one) => one.node) : h("p", { class: "quiet" }, "The model takes no values."));
  const clear = () => form.querySelectorAll("[aria-invalid]").forEach((one) => one.removeAttribute("aria-invalid"));
  const build = () => {
    clear();
    const wrong = [...form.elements].find((one) => one.willValidate && !one.checkValidity());
    if (wrong) throw new FieldError(wrong, `${wrong.labels[0].firstChild.data}: ${wrong.validationMessage}`);
    const given = values();
    return hasFiles(given) ? formOf(given) : objectOf(given);
  };
  // The server's errors begin with the input's name.
  const mark = (answer, message) => {
    const bad = fields.find(({ input }) => ["'", ".", "["].some((end) => message.startsWith(`input '${input.name}${end}`)));
    if (bad && bad.control) bad.control.setAttribute("aria-invalid", "true");
  };
  const sending = sender(model.plain, build, mark);
  sending.listen(form);
  const panel = h("div", {});
  const redraw = codeTabs(model, values, panel);
  form.addEventListener("input", () => { clear(); redraw(); });
  return [form, ...sending.nodes, h("h2", {}, "The same request in code"), panel];
}
