// Lines to copy: what a form holds, by curl, penstock.Client, requests and fetch.

// A longer body is a file of its own.
const MOST_INLINE = 4000;

const STRING = /"(?:[^"\\]|\\.)*"/.source;
// JSON as Python writes it, with the digits that its numbers have.
const pythonOf = (json) => json.replace(new RegExp(`${STRING}|\\b(?:true|false|null)\\b`, "g"),
  (token) => ({ true: "True", false: "False", null: "None" }[token] || text(JSON.parse(token))));
const urlOf = (model) => `${location.origin}${base}${model.plain}`;
const named = (file) => file.name;
const saved = (model) => (model.media ? `answer.${model.media.split("/")[1]}` : "");
const parts = (values) => values.flatMap(({ name, texts }) => texts.map((value) => [name, value]));
const attached = (values) => values.flatMap(({ name, files }) => files.map((file) => [name, named(file)]));

function curlCall(model, values) {
  const lines = [`curl -s ${model.streams ? "-N " : ""}${quoted(urlOf(model))}`, ...placeholders().map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`)];
  if (hasFiles(values)) {
    const name = (file) => `"${file.replace(/(["\\])/g, "\\$1")}"`;
    lines.push(...attached(values).map(([input, file]) => `-F ${quoted(`${input}=@${name(file)}`)}`));
    lines.push(...parts(values).map(([input, value]) => `--form-string ${quoted(`${input}=${value}`)}`));
  } else {
    const body = objectOf(values);
    lines.push("-H 'Content-Type: application/json'");
    lines.push(body.length > MOST_INLINE ? "--data-binary @request.json" : `-d ${quoted(body)}`);
  }
  if (saved(model)) lines.push(`-o ${saved(model)}`);
  return lines.join(" \\\n  ");
}

const pythonHeaders = (more) => {
  const headers = { ...more, ...Object.fromEntries(placeholders()) };
  return Object.keys(headers).length ? [`headers=${literal(headers)}`] : [];
};

// The only output as what it is, or all of them.
function pythonShown(model, result) {
  const [only, ...more] = model.outputs;
  if (!only || more.length) return [`print({name: ${result}[name] for name in ${literal(model.outputs.map((one) => one.name))}})`];
  if (saved(model)) return [`Path(${text(saved(model))}).write_bytes(${result}.value.item())`];
  return [`print(${result}.${only.datatype === "BYTES" && !only.schema ? "text" : "json()"})`];
}

function clientCall(model, values) {
  const bytes = (file) => `Path(${text(named(file))}).read_bytes()`;
  const valueOf = ({ json, files, many }) => (!files.length ? pythonOf(json) : many ? `[${files.map(bytes).join(", ")}]` : bytes(files[0]));
  const isLong = !hasFiles(values) && objectOf(values).length > MOST_INLINE;
  const isKeyword = values.every(({ name }) => /^[A-Za-z_]\w*$/.test(name) && !TAKEN.has(name));
  const inputs = isLong ? ['json.loads(Path("request.json").read_text())']
    : isKeyword ? values.map((value) => `${value.name}=${valueOf(value)}`)
      : [`{${values.map((value) => `${text(value.name)}: ${valueOf(value)}`).join(", ")}}`];
  const given = [text(model.model), ...inputs, ...(model.is_default ? [] : [`version=${text(model.version)}`])].join(", ");
  const lines = model.streams
    ? [`for piece in client.stream(${given}):`, ...pythonShown(model, "piece").map((line) => `    ${line}`)]
    : [`result = client.infer(${given})`, ...pythonShown(model, "result")];
  const body = lines.map((line) => `    ${line}`);
  return [
    ...(isLong ? ["import json"] : []),
    ...(body.some((line) => line.includes("Path(")) ? ["from pathlib import Path"] : []),
    "from penstock import Client", "",
    `with Client(${[text(location.origin + base), ...pythonHeaders()].join(", ")}) as client:`, ...body].join("\n");
}

function requestsCall(model, values) {
  const body = objectOf(values);
  const isLong = !hasFiles(values) && body.length > MOST_INLINE;
  const pairs = (all, write) => `[${all.map(([name, value]) => `(${text(name)}, ${write(value)})`).join(", ")}]`;
  const data = parts(values).length ? [`data=${pairs(parts(values), text)}`] : [];
  const sent = hasFiles(values)
    ? [`files=${pairs(attached(values), (file) => `open(${text(file)}, "rb")`)}`, ...data]
    : isLong ? ['data=open("request.json", "rb")'] : [`json=${pythonOf(body)}`];
  const headers = pythonHeaders(isLong ? { "Content-Type": "application/json" } : {});
  const given = [text(urlOf(model)), ...sent, ...headers, ...(model.streams ? ["stream=True"] : [])];
  const call = `requests.post(\n    ${given.join(",\n    ")},\n)`;
  const shown = model.streams
    ? ["for line in response.iter_lines():", '    if line.startswith(b"data:"):', "        print(json.loads(line[5:]))"]
    : [saved(model) ? `Path(${text(saved(model))}).write_bytes(response.content)` : "print(response.json())"];
  return [
    ...(model.streams ? ["import json"] : []), ...(saved(model) ? ["from pathlib import Path"] : []),
    "import requests", "", `response = ${call}`, "response.raise_for_status()", ...shown].join("\n");
}

function fetchCall(model, values) {
  const body = objectOf(values);
  const isForm = hasFiles(values);
  const isLong = !isForm && body.length > MOST_INLINE;
  const before = isForm
    ? ["const form = new FormData();",
      ...attached(values).map(([name, file]) => `form.append(${text(name)}, await openAsBlob(${text(file)}), ${text(file)});`),
      ...parts(values).map(([name, value]) => `form.append(${text(name)}, ${text(value)});`)]
    : [];
  const headers = Object.fromEntries([...(isForm ? [] : [["Content-Type", "application/json"]]), ...placeholders()]);
  // A number of more digits than a double has is sent as it is written.
  const isExact = !isForm && !isLong && layOut(text(JSON.parse(body))) === layOut(body);
  const sent = isForm ? "form" : isLong ? 'await readFile("request.json")' : isExact ? `JSON.stringify(${body})` : text(body);
  const shown = model.streams
    ? ["for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) console.log(chunk);"]
    : [saved(model) ? `await writeFile(${text(saved(model))}, new Uint8Array(await response.arrayBuffer()));` : "console.log(await response.json());"];
  const promises = [isLong && "readFile", saved(model) && "writeFile"].filter(Boolean);
  return [
    ...(isForm ? ['import { openAsBlob } from "node:fs";'] : []),
    ...(promises.length ? [`import { ${promises.join(", ")} } from "node:fs/promises";`] : []),
    ...before,
    `const response = await fetch(${text(urlOf(model))}, {`,
    '  method: "POST",',
    ...(Object.keys(headers).length ? [`  headers: ${layOut(text(headers))},`] : []),
    `  body: ${sent},`,
    "});",
    "if (!response.ok) throw new Error(await response.text());",
    ...shown].join("\n");
}

// Tabs of the calls in `panel`. Returns a function that writes them again, for what `values` returns now.
function codeTabs(model, values, panel) {
  const shown = (call) => () => {
    try {
      return code(call(model, values()));
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      return h("p", { class: "quiet" }, error.message);
    }
  };
  const calls = [["curl", curlCall], ["Python, penstock", clientCall], ["Python, requests", requestsCall], ["JavaScript", fetchCall]];
  const { nodes, again } = tabs("Code", "code", calls.map(([name, call]) => [name, shown(call)]));
  panel.append(...nodes);
  return again;
}
