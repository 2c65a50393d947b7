// Lines to copy: the same request by curl and from Python.

const NUMPY = { BOOL: "np.bool_", FP16: "np.float16", BF16: "np.float32", FP32: "np.float32", FP64: "np.float64", BYTES: "object" };
// Keywords of Python and of the client's own calls: inputs of these names go in a dict.
const TAKEN = new Set("and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield False None True self outputs parameters timeout request_id headers version datatypes end options".split(" "));

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const text = (value) => JSON.stringify(value);
// What was entered stays out of what is copied.
const placeholders = () => [...secrets.keys()].map((name) => [name, name === "authorization" ? "Bearer KEY" : "KEY"]);

function curl(model) {
  const url = `${model.streams ? "-N " : ""}${quoted(`${location.origin}${base}${model.path}`)}` +
    placeholders().map(([name, value]) => ` \\\n  -H ${quoted(`${name}: ${value}`)}`).join("");
  if (elements(model) <= MOST_SHOWN) {
    return `curl -s ${url} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(request(model))}`;
  }
  let total = 0;
  const inputs = sent(model).map((tensor) => {
    const { name, datatype, example_shape: shape } = tensor;
    if (tensor.schema) return { name, datatype, shape, data: [sample(tensor)] };
    const size = count(shape) * SIZES[datatype];
    total += size;
    return { name, datatype, shape, parameters: { binary_data_size: size } };
  });
  const head = text({ parameters: parameters(model), inputs });
  const length = new TextEncoder().encode(head).length;
  return `{ printf %s ${quoted(head)}; head -c ${total} /dev/zero; } |\n  curl -s ${url} \\\n` +
    `  -H 'Content-Type: application/octet-stream' \\\n  -H 'Inference-Header-Content-Length: ${length}' \\\n  --data-binary @-`;
}

function array(tensor, brain) {
  const { datatype, example_shape: shape } = tensor;
  const dtype = (datatype === "BF16" && brain) || NUMPY[datatype] || `np.${datatype.toLowerCase()}`;
  const value = sample(tensor);
  return typeof value === "string"
    ? `np.full(${shapeText(shape)}, ${text(value)}, ${dtype})`
    : `np.ones(${shapeText(shape)}, ${dtype})`;
}

// JSON as Python writes it.
function literal(value) {
  if (value === null || typeof value === "boolean") return { true: "True", false: "False", null: "None" }[value];
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value !== "object") return text(value);
  return `{${Object.entries(value).map(([name, member]) => `${text(name)}: ${literal(member)}`).join(", ")}}`;
}

function python(tensor) {
  const isOne = tensor.example_shape.length === 0 && tensor.datatype === "BYTES";
  const value = isOne && tensor.schema ? JSON.parse(sample(tensor)) : sample(tensor);
  // A document that is a text or a number would be taken for the element itself.
  if (!isOne || (tensor.schema && (value === null || typeof value !== "object"))) return array(tensor);
  return literal(value);
}

function penstock(model) {
  const inputs = sent(model);
  const isPlain = inputs.every(({ name }) => /^[A-Za-z_]\w*$/.test(name) && !TAKEN.has(name));
  const values = isPlain
    ? inputs.map((one) => `${one.name}=${python(one)}`)
    : [`{${inputs.map((one) => `${text(one.name)}: ${python(one)}`).join(", ")}}`];
  const brains = inputs.filter((one) => one.datatype === "BF16").map((one) => `${text(one.name)}: "BF16"`);
  const version = model.is_default ? [] : [`version=${text(model.version)}`];
  const rest = [...values, ...version, ...(brains.length ? [`datatypes={${brains.join(", ")}}`] : [])];
  const call = (what, given) => {
    const line = `${what}(${given.join(", ")})`;
    return line.length < 84 ? line : `${what}(\n        ${given.join(",\n        ")},\n    )`;
  };
  const headers = placeholders().length ? `, headers=${literal(Object.fromEntries(placeholders()))}` : "";
  const prints = (name) => model.outputs.map((one) => `print(${name}[${text(one.name)}])`);
  const of = text(model.model);
  let lines;
  if (model.streams) {
    const asked = model.sequences ? [`parameters=${literal(parameters(model))}`] : [];
    lines = [`for piece in ${call("client.stream", [of, ...rest, ...asked])}:`, ...prints("piece").map((line) => `    ${line}`)];
  } else if (model.sequences) {
    lines = [
      `with client.sequence(${of}, 1) as sequence:`,
      `    result = ${call("sequence.infer", [...rest, "end=True"])}  # end: the last request`,
      ...prints("result").map((line) => `    ${line}`),
    ];
  } else lines = [`result = ${call("client.infer", [of, ...rest])}`, ...prints("result")];
  const body = lines.map((line) => `    ${line}`).join("\n");
  const numpy = body.includes("np.") ? ["import numpy as np"] : [];
  return [...numpy, "from penstock import Client", "", `with Client(${text(location.origin + base)}${headers}) as client:`, body].join("\n");
}

function triton(model) {
  const secure = location.protocol === "https:" ? ", ssl=True" : "";
  const options = [
    ...(model.is_default ? [] : [`model_version=${text(model.version)}`]),
    ...(model.sequences ? ["sequence_id=1, sequence_start=True, sequence_end=True"] : []),
    ...(placeholders().length ? [`headers=${literal(Object.fromEntries(placeholders()))}`] : []),
  ];
  const brains = sent(model).some((one) => one.datatype === "BF16");
  return [
    `# pip install tritonclient[http]${brains ? " ml_dtypes" : ""}`,
    ...(brains ? ["import ml_dtypes"] : []),
    "import numpy as np",
    "import tritonclient.http as http",
    "",
    `client = http.InferenceServerClient(${text(location.host + base)}${secure})`,
    "inputs = [",
    ...sent(model).map((one) => `    http.InferInput(${text(one.name)}, ${shapeText(one.example_shape)}, ${text(one.datatype)}),`),
    "]",
    ...sent(model).map((one, index) => `inputs[${index}].set_data_from_numpy(${array(one, "ml_dtypes.bfloat16")})`),
    `answer = client.infer(${[text(model.model), "inputs", ...options].join(", ")})`,
    ...model.outputs.map((one) => `print(answer.as_numpy(${text(one.name)}))`),
  ].join("\n");
}
