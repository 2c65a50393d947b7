"use strict";
// Where the server is, which headers it is asked with, and what a request of a model looks like.

const MOST_SHOWN = 256;
const SIZES = { BOOL: 1, UINT8: 1, INT8: 1, UINT16: 2, INT16: 2, FP16: 2, BF16: 2, UINT32: 4, INT32: 4, FP32: 4, UINT64: 8, INT64: 8, FP64: 8, BYTES: 4 };

// The page may be under another path than the server's own, behind a proxy.
const place = location.pathname.match(/^(.*?)\/(?:v2\/models\/([^/]+)\/docs|v2\/docs|docs)$/) || ["", "", undefined];
const base = place[1];
const source = place[2] ? `/v2/models/${place[2]}/docs/dataplane.json` : "/openapi.json";

// Headers that callers must carry, by name. They are in the memory of this page and nowhere else.
const secrets = new Map();
const ask = (path, options = {}) =>
  fetch(base + path, { ...options, headers: { ...options.headers, ...Object.fromEntries(secrets) } });

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

// A sequence of its own, where the model keeps sequences.
const parameters = (model) => (model.sequences ? { sequence_id: 1, sequence_start: true, sequence_end: true } : undefined);

function request(model) {
  const input = (tensor) => ({
    name: tensor.name,
    datatype: tensor.datatype,
    shape: tensor.example_shape,
    data: Array(count(tensor.example_shape)).fill(sample(tensor)),
  });
  return JSON.stringify({ parameters: parameters(model), inputs: sent(model).map(input) });
}
