// Fields of a form, of a kind for each type. What a field reads is the JSON of its value, as text, so that no digit of
// a number changes; undefined is a value that is left out.

let fieldCount = 0;

class FieldError extends Error {
  constructor(control, message) { super(message); this.control = control; }
}

const pointed = (reference) => reference.slice(2).split("/").reduce(
  (value, part) => (value || {})[part.replaceAll("~1", "/").replaceAll("~0", "~")], api) || {};

// Follows references, and drops a null that stands for a value left out.
function resolve(schema) {
  // A schema may refer to itself.
  for (let left = 16; left && schema && typeof schema === "object"; left--) {
    const { $ref: reference, anyOf, ...rest } = schema;
    const some = (anyOf || []).filter((one) => one.type !== "null");
    if (reference && reference.endsWith("/V1Bytes")) return { ...rest, type: "string" };
    if (reference) schema = { ...pointed(reference), ...rest };
    else if (some.length === 1) schema = { ...some[0], ...rest };
    else return schema;
  }
  return {};
}

function kindOf(schema, required, depth) {
  const type = [].concat(schema.type || []).find((one) => one !== "null");
  if (schema.enum || schema.const !== undefined) return "choice";
  if (type === "boolean") return required || schema.default !== undefined ? "check" : "choice";
  if (type === "number" || type === "integer") return "number";
  if (type === "string") return "words";
  return type === "object" && schema.properties && required && !depth ? "group" : "json";
}

function labelled(name, hint, control, below) {
  control.id = `field${fieldCount += 1}`;
  const label = h("label", { for: control.id }, name, " ", h("span", { class: "quiet" }, hint));
  const isCheck = control.type === "checkbox";
  return h("div", { class: isCheck ? "field check" : "field" }, isCheck ? [control, label] : [label, control], below);
}

// The JSON that is typed in a control; undefined if there is none.
function typedJson(control, name) {
  if (control.value.trim() === "") return undefined;
  try {
    JSON.parse(control.value);
  } catch (error) {
    throw new FieldError(control, `${name} is not JSON: ${error.message}`);
  }
  return control.value.trim();
}

const KINDS = {
  words(name, schema, { required, start, hint, depth }) {
    const control = h(depth ? "input" : "textarea", { spellcheck: "false", autocomplete: "off", rows: depth ? null : 1 });
    control.value = start === undefined || start === null ? "" : start;
    const read = () => (required || control.value ? text(control.value) : undefined);
    return { node: labelled(name, hint("text"), control), control, read };
  },

  number(name, schema, { required, start, hint }) {
    const isInteger = schema.type === "integer";
    const control = h("input", { type: "number", step: isInteger ? "1" : "any", required });
    // The bounds of 64 bits are no doubles.
    for (const [bound, limit] of [["min", schema.minimum], ["max", schema.maximum]]) {
      if (Math.abs(limit) < 2 ** 53) control[bound] = limit;
    }
    control.value = start === undefined || start === null ? "" : start;
    const read = () => {
      const typed = control.value;
      if (typed === "") return undefined;
      return /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(typed) ? typed : String(Number(typed));
    };
    return { node: labelled(name, hint(isInteger ? "integer" : "number"), control), control, read };
  },

  check(name, schema, { start, hint }) {
    const control = h("input", { type: "checkbox" });
    control.checked = Boolean(start);
    return { node: labelled(name, hint(""), control), control, read: () => String(control.checked) };
  },

  choice(name, schema, { required, start, hint }) {
    const values = schema.enum || (schema.const === undefined ? [true, false] : [schema.const]);
    const options = values.map((value) => h("option", { value: text(value) }, typeof value === "string" ? value : text(value)));
    const control = h("select", {}, required ? null : h("option", { value: "" }, "left out"), options);
    if (start !== undefined && start !== null) control.value = text(start);
    return { node: labelled(name, hint(schema.enum ? "one of" : "true or false"), control), control, read: () => control.value || undefined };
  },

  json(name, schema, { required, start, hint, generate }) {
    const control = h("textarea", { spellcheck: "false", autocomplete: "off", rows: 2, class: "mono" });
    if (start !== undefined) control.value = layOut(text(start));
    const read = () => {
      const value = typedJson(control, name);
      if (value !== undefined || !required) return value;
      if (generate) return generate();
      throw new FieldError(control, `${name} is empty, expected JSON`);
    };
    const note = generate ? h("p", { class: "under" }, "The example is too long to show: it is made when it is sent. What is written here is sent instead.") : null;
    return { node: labelled(name, hint("JSON"), control, note), control, read };
  },

  group(name, schema, { start, hint }) {
    const isRequired = (member) => (schema.required || []).includes(member);
    const members = Object.entries(schema.properties).sort(([a], [b]) => isRequired(b) - isRequired(a)).map(([member, one]) =>
      [member, field(member, one, { required: isRequired(member), example: (start || {})[member], depth: 1 })]);
    const read = () => {
      const given = members.map(([member, one]) => [member, one.read()]).filter(([, value]) => value !== undefined);
      return `{${given.map(([member, value]) => `${text(member)}: ${value}`).join(", ")}}`;
    };
    const legend = h("legend", {}, name, " ", h("span", { class: "quiet" }, hint(schema.title || "object")));
    return { node: h("fieldset", {}, legend, members.map(([, one]) => one.node)), control: members.length ? members[0][1].control : null, read };
  },

  file(name, schema, { required, hint, accept }) {
    const many = schema.type === "array";
    const control = h("input", { type: "file", required, multiple: many, accept });
    const previews = h("div", { class: "previews" });
    control.addEventListener("change", () => {
      previews.replaceChildren(...[...control.files].map((file) => {
        const caption = h("figcaption", { class: "quiet" }, `${file.name}, ${counted(file.size, "byte")}`);
        const isImage = file.type.startsWith("image/");
        return h("figure", {}, isImage ? picture(file, `Preview of ${file.name}`, () => {}) : null, caption);
      }));
    });
    const files = () => [...control.files];
    return { node: labelled(name, hint(many ? "files" : "file"), control, previews), control, files, many, read: () => undefined };
  },
};

// A field of the value `name`. `options`: whether it is required, its example, whether it is a file.
function field(name, given, { required, example, isFile, accept, generate, depth = 0 }) {
  const schema = resolve(given);
  const start = example === undefined ? schema.default : example;
  const kind = isFile ? "file" : kindOf(schema, required, depth);
  const hint = (words) => [words, required ? "" : "optional"].filter(Boolean).join(", ");
  return KINDS[kind](name, schema, { required, start, hint, accept, generate, depth });
}
