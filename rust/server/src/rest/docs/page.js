"use strict";
// Names, descriptions and answers are text: elements are made with textContent only, never from markup.
(() => {
  const MOST_SHOWN = 256;
  const SIZES = { BOOL: 1, UINT8: 1, INT8: 1, UINT16: 2, INT16: 2, FP16: 2, BF16: 2, UINT32: 4, INT32: 4, FP32: 4, UINT64: 8, INT64: 8, FP64: 8, BYTES: 4 };
  const NUMPY = { BOOL: "np.bool_", FP16: "np.float16", BF16: "np.float32", FP32: "np.float32", FP64: "np.float64", BYTES: "object" };

  // The page may be under another path than the server's own, behind a proxy.
  const place = location.pathname.match(/^(.*?)\/(?:v2\/models\/([^/]+)\/docs|v2\/docs|docs)$/) || ["", "", undefined];
  const base = place[1];
  const source = base + (place[2] ? `/v2/models/${place[2]}/docs/dataplane.json` : "/openapi.json");
  const byId = (id) => document.getElementById(id);
  const say = (text) => { byId("said").textContent = text; };
  const counted = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

  function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value != null) element.setAttribute(name, value);
    }
    element.append(...children.flat().filter((child) => child != null && child !== ""));
    return element;
  }

  // Lays JSON out without reading its values, so that no digit of a number changes.
  function layOut(text) {
    const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g) || [];
    let at = 0;
    const read = (depth) => {
      const open = tokens[at++];
      if (open !== "{" && open !== "[") return open;
      const close = open === "{" ? "}" : "]";
      const parts = [];
      while (at < tokens.length && tokens[at] !== close) {
        let part = read(depth + 1);
        if (tokens[at] === ":") { at++; part += `: ${read(depth + 1)}`; }
        if (tokens[at] === ",") at++;
        parts.push(part);
      }
      at++;
      const line = open + parts.join(", ") + close;
      const isShort = line.length + 2 * depth < 78 && !line.includes("\n");
      if (isShort || (open === "[" && parts.every((part) => !/^[{[]/.test(part)))) return line;
      const indent = "  ".repeat(depth);
      return `${open}\n${parts.map((part) => `${indent}  ${part}`).join(",\n")}\n${indent}${close}`;
    };
    return read(0);
  }

  // ---- a request of a model, and how to send it

  const count = (shape) => shape.reduce((product, axis) => product * axis, 1);
  const shapeText = (shape) => `[${shape.join(", ")}]`;

  function sample(tensor) {
    if (tensor.schema) return tensor.example === null ? "{}" : tensor.example;
    return { BOOL: true, BYTES: "text" }[tensor.datatype] || 1;
  }

  function sent(model) {
    const required = model.inputs.filter((input) => !input.optional);
    // Where all may be left out, one still has to say how many rows there are.
    return required.length || model.max_rows === null ? required : model.inputs.slice(0, 1);
  }

  const elements = (model) => sent(model).reduce((sum, input) => sum + count(input.example_shape), 0);

  function request(model) {
    const input = (tensor) => ({
      name: tensor.name,
      datatype: tensor.datatype,
      shape: tensor.example_shape,
      data: Array(count(tensor.example_shape)).fill(sample(tensor)),
    });
    // A sequence of its own, where the model keeps sequences.
    const parameters = model.sequences ? { sequence_id: 1, sequence_start: true, sequence_end: true } : undefined;
    return JSON.stringify({ parameters, inputs: sent(model).map(input) });
  }

  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

  function curl(model) {
    const url = `${model.streams ? "-N " : ""}${quoted(`${location.origin}${base}${model.path}`)}`;
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
    const head = JSON.stringify({ parameters: JSON.parse(request({ ...model, inputs: [] })).parameters, inputs });
    const length = new TextEncoder().encode(head).length;
    return `{ printf %s ${quoted(head)}; head -c ${total} /dev/zero; } |\n  curl -s ${url} \\\n` +
      `  -H 'Content-Type: application/octet-stream' \\\n  -H 'Inference-Header-Content-Length: ${length}' \\\n  --data-binary @-`;
  }

  function triton(model) {
    const text = (value) => JSON.stringify(value);
    const array = ({ datatype, example_shape: shape, ...tensor }) => {
      const dtype = NUMPY[datatype] || `np.${datatype.toLowerCase()}`;
      const value = sample({ datatype, ...tensor });
      return typeof value === "string"
        ? `np.full(${shapeText(shape)}, ${text(value)}, ${dtype})`
        : `np.ones(${shapeText(shape)}, ${dtype})`;
    };
    const secure = location.protocol === "https:" ? ", ssl=True" : "";
    const version = model.is_default ? "" : `, model_version=${text(model.version)}`;
    return [
      "# pip install tritonclient[http]",
      "import numpy as np",
      "import tritonclient.http as http",
      "",
      `client = http.InferenceServerClient(${text(location.host + base)}${secure})`,
      "inputs = [",
      ...sent(model).map((one) => `    http.InferInput(${text(one.name)}, ${shapeText(one.example_shape)}, ${text(one.datatype)}),`),
      "]",
      ...sent(model).map((one, index) => `inputs[${index}].set_data_from_numpy(${array(one)})`),
      `answer = client.infer(${text(model.model)}, inputs${version}${model.sequences ? ", sequence_id=1, sequence_start=True, sequence_end=True" : ""})`,
      ...model.outputs.map((one) => `print(answer.as_numpy(${text(one.name)}))`),
    ].join("\n");
  }

  // ---- parts of the page

  function code(text, wrap) {
    const block = h("pre", { tabindex: "0", class: wrap ? "wrap" : "" }, h("code", {}, text));
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
        say("Copied");
      } catch {
        // Only pages from this machine or over TLS may write to the clipboard.
        getSelection().selectAllChildren(block);
        say("Selected, to be copied from the keyboard");
      }
    };
    const button = h("button", { type: "button", class: "copy", onclick: copy }, "Copy");
    return h("div", { class: "code" }, block, button);
  }

  function tabs(label, parts) {
    const panel = h("div", { role: "tabpanel", id: "panel", "aria-labelledby": "tab0" });
    const show = (index) => {
      buttons.forEach((button, other) => {
        button.setAttribute("aria-selected", other === index);
        button.tabIndex = other === index ? 0 : -1;
      });
      panel.setAttribute("aria-labelledby", `tab${index}`);
      panel.replaceChildren(code(parts[index][1]));
    };
    const move = (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = (buttons.indexOf(event.target) + step + buttons.length) % buttons.length;
      show(next);
      buttons[next].focus();
    };
    const buttons = parts.map(([name], index) =>
      h("button", { type: "button", role: "tab", id: `tab${index}`, "aria-controls": "panel", onclick: () => show(index), onkeydown: move }, name));
    show(0);
    return [h("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons), panel];
  }

  function table(heads, rows, kind) {
    const head = h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)));
    return h("div", { class: `table ${kind || ""}` }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
  }

  function tensors(title, all) {
    if (!all.length) return [h("h2", {}, title), h("p", { class: "quiet" }, "None.")];
    const notes = (tensor) => [tensor.optional && "may be left out", tensor.schema && "one JSON document"].filter(Boolean).join(", ");
    const rows = all.map((tensor) => h("tr", {},
      h("td", { class: "name" }, tensor.name),
      h("td", { class: "mono" }, tensor.datatype),
      h("td", { class: "mono" }, shapeText(tensor.shape)),
      h("td", { class: "quiet" }, notes(tensor))));
    const schemas = all.filter((tensor) => tensor.schema).map((tensor) => {
      const schema = layOut(JSON.stringify(api.components.schemas[tensor.schema]));
      return h("details", {}, h("summary", {}, "Schema of the document ", h("code", {}, tensor.name)), code(schema));
    });
    return [h("h2", {}, title), table(["Name", "Datatype", "Shape", "Notes"], rows, "tensors"), ...schemas];
  }

  // What stands between backticks is code; all else is text.
  function prose(text) {
    return h("p", { class: "lead" }, text.split(/`+/).map((part, index) => (index % 2 ? h("code", {}, part) : part)));
  }

  function chip(kind, text) {
    return h("span", { class: `chip ${kind}` }, text);
  }

  // A chip that says whether a route answers 200.
  function readiness(path) {
    const found = chip("", "asking");
    fetch(base + path).then(async (answer) => {
      const said = answer.ok ? {} : await answer.json().catch(() => ({}));
      found.className = `chip ${answer.ok ? "good" : "bad"}`;
      found.textContent = answer.ok ? "ready" : "not ready";
      if (said.error) found.title = said.error;
    }).catch(() => {
      found.className = "chip bad";
      found.textContent = "no answer";
    });
    return found;
  }

  function attempt(model) {
    const isLong = elements(model) > MOST_SHOWN;
    const field = h("textarea", { spellcheck: "false", autocomplete: "off", "aria-label": "Request body, JSON" });
    field.value = isLong ? "" : layOut(request(model));
    field.rows = Math.min(24, Math.max(6, field.value.split("\n").length));
    const outcome = h("span", { class: "act" });
    const result = h("div", {});
    const send = async () => {
      button.disabled = true;
      outcome.replaceChildren(h("span", { class: "quiet" }, "Sending …"));
      const start = performance.now();
      try {
        const answer = await fetch(base + model.path, {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: isLong && !field.value ? request(model) : field.value,
        });
        const bytes = await received(answer);
        show(answer, bytes, performance.now() - start);
      } catch (error) {
        outcome.replaceChildren(chip("bad", "no answer"), String(error.message || error));
        result.replaceChildren();
      }
      button.disabled = false;
    };
    // Events are shown as they come.
    const received = async (answer) => {
      const chunks = [];
      const reader = answer.body.getReader();
      const isStream = (answer.headers.get("content-type") || "").startsWith("text/event-stream");
      const text = new TextDecoder();
      const block = h("pre", { class: "wrap", tabindex: "0" });
      if (isStream) result.replaceChildren(block);
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        chunks.push(piece.value);
        if (isStream) block.append(text.decode(piece.value, { stream: true }));
      }
      return new Uint8Array(await new Blob(chunks).arrayBuffer());
    };
    const show = (answer, bytes, took) => {
      const status = `${answer.status} ${answer.statusText}`.trim();
      outcome.replaceChildren(chip(answer.ok ? "good" : "bad", status), h("span", { class: "quiet" }, `${took.toFixed(1)} ms · ${counted(bytes.byteLength, "byte")}`));
      say(`Answered ${status}`);
      const type = answer.headers.get("content-type") || "";
      if (type.startsWith("text/event-stream")) return undefined;
      const isJson = type.startsWith("application/json");
      if (!isJson) return result.replaceChildren(h("p", { class: "quiet" }, "The answer is binary and is not shown."));
      const text = new TextDecoder().decode(bytes);
      result.replaceChildren(code(text.length > 1e5 ? `${text.slice(0, 1e5)} …` : layOut(text), true));
    };
    const button = h("button", { type: "button", class: "send", onclick: send }, "Send");
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); button.click(); }
    });
    const note = isLong
      ? h("p", { class: "under" }, `The example has ${counted(elements(model), "element")}, too many to show: it is made when it is sent. What is written here is sent instead.`)
      : model.inputs.some((input) => input.schema && input.example === null)
        ? h("p", { class: "under" }, "No example can be made of this model's document: write yours in place of {}.")
        : null;
    return [h("h2", {}, "Try it"), field, note, h("div", { class: "act" }, button, outcome), result];
  }

  function modelView(model) {
    const rows = model.max_rows === null
      ? `Each request is one call${model.streams ? ", answered in pieces as they are made" : ""}.`
      : `A request has up to ${counted(model.max_rows, "row")}; rows of several requests may share a call.`;
    const axes = [...model.inputs, ...model.outputs].flatMap((tensor) => tensor.shape);
    const under = model.max_rows !== null
      ? "-1 is an axis of any size. The first axis is the rows."
      : axes.includes(-1) ? "-1 is an axis of any size." : "";
    return [
      h("div", { class: "title" }, h("h1", {}, model.model), chip("plain", `version ${model.version}`),
        readiness(`/v2/models/${encodeURIComponent(model.model)}/versions/${encodeURIComponent(model.version)}/ready`)),
      model.description && prose(model.description),
      h("p", { class: "facts" }, rows),
      ...tensors("Inputs", model.inputs),
      ...tensors("Outputs", model.outputs),
      under && h("p", { class: "under" }, under),
      h("h2", {}, "Ask it"),
      ...tabs("Clients", [["curl", curl(model)], ...(model.streams ? [] : [["tritonclient", triton(model)]])]),
      ...attempt(model),
    ];
  }

  function overview() {
    const lines = (all) => all.map((one) => h("span", { class: "line" }, one.name, " ", h("span", { class: "mono quiet" }, `${one.datatype} ${shapeText(one.shape)}`)));
    const rows = models.map((model) => h("tr", {},
      h("td", { class: "name" }, h("a", { href: target(model) }, model.model)),
      h("td", {}, model.version), h("td", {}, lines(model.inputs)), h("td", {}, lines(model.outputs))));
    return [
      h("div", { class: "title" }, h("h1", {}, "Models")),
      h("p", { class: "facts" }, `${counted(new Set(models.map((model) => model.model)).size, "model")}. Shapes that begin with -1 have a batch axis.`),
      models.length ? table(["Model", "Version", "Inputs", "Outputs"], rows) : h("p", { class: "quiet" }, "No model is served."),
    ];
  }

  function routesView() {
    const rows = Object.entries(api.paths).flatMap(([path, item]) => Object.entries(item).map(([method, operation]) =>
      h("tr", {}, h("td", { class: "mono" }, method.toUpperCase()), h("td", { class: "mono" }, path), h("td", { class: "quiet" }, operation.summary))));
    return [
      h("div", { class: "title" }, h("h1", {}, "Routes")),
      prose(api.info.description),
      h("h2", {}, counted(rows.length, "route")),
      table(["Method", "Path", "Summary"], rows),
    ];
  }

  // ---- the whole

  let api;
  let models = [];
  const target = (model) => `#${encodeURIComponent(model.model)}/${encodeURIComponent(model.version)}`;

  function read(document) {
    const known = new Map();
    for (const [path, item] of Object.entries(document.paths)) {
      const about = item.post && item.post["x-penstock"];
      if (!about) continue;
      const key = JSON.stringify([about.model, about.version]);
      // One answer before a stream of them, a path without a version before one with it.
      const rank = about.streams * 1e4 + path.length;
      if (!known.has(key) || rank < known.get(key).rank) known.set(key, { ...about, path, rank });
    }
    return [...known.values()].sort((a, b) => a.model.localeCompare(b.model, "en", { numeric: true }) || a.version.localeCompare(b.version, "en", { numeric: true }));
  }

  function drawSide() {
    const item = (href, text, version) => h("li", {}, h("a", { href }, text, version ? h("span", { class: "version" }, version) : null));
    const list = h("ul", {}, models.map((model) => item(target(model), model.model, `v${model.version}`)));
    const filter = h("input", { type: "search", placeholder: "Find a model", "aria-label": "Find a model" });
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      models.forEach((model, index) => { list.children[index].hidden = !model.model.toLowerCase().includes(wanted); });
    });
    byId("side").replaceChildren(
      h("p", { class: "label" }, "Server"),
      h("ul", {}, item("#all", "Overview"), item("#routes", "Routes")),
      h("p", { class: "label" }, "Models"),
      models.length > 10 ? filter : "",
      list);
  }

  function draw() {
    const hash = location.hash;
    const model = models.find((one) => target(one) === hash) || (hash === "" && models.length === 1 ? models[0] : null);
    const view = hash === "#routes" ? routesView() : model ? modelView(model) : overview();
    byId("main").replaceChildren(...view.filter(Boolean));
    const current = model ? target(model) : hash === "#routes" ? hash : "#all";
    for (const link of byId("side").querySelectorAll("a")) {
      if (link.getAttribute("href") === current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${model ? `${model.model} · ` : ""}${api.info.title}`;
  }

  async function start() {
    const answer = await fetch(source);
    if (!answer.ok) throw new Error(`${source} answered ${answer.status}`);
    api = await answer.json();
    models = read(api);
    byId("top").replaceChildren(
      h("a", { class: "brand", href: "#" }, api.info.title),
      h("span", { class: "quiet" }, api.info.version),
      readiness("/v2/health/ready"),
      h("span", { class: "links" }, h("a", { href: source }, "openapi.json"), h("a", { href: `${base}/metrics` }, "metrics")));
    drawSide();
    draw();
    addEventListener("hashchange", () => { draw(); scrollTo(0, 0); byId("main").focus({ preventScroll: true }); });
  }

  start().catch((error) => {
    byId("main").replaceChildren(h("p", { class: "notice", role: "alert" }, `This page could not read the server's description: ${error.message}`));
  });
})();
