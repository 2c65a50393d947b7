// What comes back: JSON, labels with their numbers, images, files, errors, and streams as they come.

const MOST_PIECES = 500;
const MOST_TEXT = 1e5;
const MOST_BARS = 10;
// First characters of images in base64.
const IMAGES = { iVBORw: "image/png", "/9j/": "image/jpeg", R0lGOD: "image/gif", UklGR: "image/webp" };

// Each event's data, in the lists that arrive together.
async function* events(reader) {
  const decoder = new TextDecoder();
  let left = "";
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    const parts = (left + decoder.decode(chunk.value, { stream: true })).split("\n\n");
    left = parts.pop();
    // Comments and ids are left out.
    const data = (part) => part.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.replace(/^data: ?/, ""));
    yield parts.map(data).filter((lines) => lines.length).map((lines) => lines.join("\n"));
  }
}

const isError = (piece) => piece.startsWith('{"error":');

// The text of a piece that is one; undefined for any other.
function textOf(piece) {
  if (!piece.startsWith('"')) return undefined;
  try { return JSON.parse(piece); } catch { return undefined; }
}

// A list of pieces, the newest `MOST_PIECES` of them. Pieces of text are one text that grows.
async function showPieces(reader, start, result, progress) {
  const list = h("ol", { class: "pieces", tabindex: "0", "aria-label": "Pieces" });
  const grown = document.createTextNode("");
  let number = 0;
  let failed = false;
  for await (const arrived of events(reader)) {
    const when = `${((performance.now() - start) / 1000).toFixed(2)} s`;
    for (const piece of arrived) {
      const words = textOf(piece);
      if (words !== undefined) {
        if (!grown.length) result.append(h("pre", { class: "wrap grown", tabindex: "0", "aria-label": "Text" }, grown));
        grown.appendData(words);
        if (grown.length > MOST_TEXT) grown.deleteData(0, grown.length - MOST_TEXT);
        continue;
      }
      failed = failed || isError(piece);
      if (!list.isConnected) result.append(list);
      list.append(h("li", { class: isError(piece) ? "bad" : "" }, h("span", { class: "when" }, when), h("code", {}, piece)));
      if (list.children.length > MOST_PIECES) list.firstChild.remove();
    }
    number += arrived.length;
    for (const box of result.children) box.scrollTop = box.scrollHeight;
    progress(number);
  }
  if (!number) result.replaceChildren(h("p", { class: "quiet" }, "The stream ended without a piece."));
  return { number, failed };
}

// Labels with their numbers, largest first: `{label: number}`, `[{label, score}]`, or `{labels, scores}`.
function scores(value) {
  const only = Array.isArray(value) && value.length === 1 ? value[0] : value;
  const label = (one) => one.label ?? one.class ?? one.name;
  const number = (one) => one.score ?? one.probability ?? one.confidence;
  const isRow = (one) => one && typeof one === "object" && label(one) !== undefined && typeof number(one) === "number";
  let pairs = [];
  if (Array.isArray(only)) pairs = only.every(isRow) ? only.map((one) => [label(one), number(one)]) : [];
  else if (only && Array.isArray(only.labels) && Array.isArray(only.scores)) pairs = only.labels.map((name, at) => [name, only.scores[at]]);
  else if (only && typeof only === "object") pairs = Object.entries(only);
  const isScore = ([, score]) => typeof score === "number" && score >= 0;
  return pairs.length > 1 && pairs.every(isScore) ? pairs.sort((a, b) => b[1] - a[1]).slice(0, MOST_BARS) : [];
}

function bars(pairs) {
  const most = pairs[0][1] > 1 ? pairs[0][1] : 1;
  return h("ol", { class: "bars", "aria-label": "Labels" }, pairs.map(([label, score]) => {
    const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("span", {}));
    bar.firstChild.style.width = `${100 * score / most}%`;
    return h("li", {}, h("span", { class: "label" }, String(label)), bar, h("span", { class: "mono" }, Number(score.toPrecision(4)).toString()));
  }));
}

// A file to look at, or to save. The next request revokes its address.
function file(bytes, type) {
  const blob = new Blob([bytes], { type });
  const name = `answer.${type.split(/[/+;]/)[1] || "bin"}`;
  const save = h("a", { href: URL.createObjectURL(blob), download: name }, `Save ${name}`);
  if (!type.startsWith("image/")) return [h("p", { class: "quiet" }, `The answer is ${type || "binary"} and is not shown. `, save)];
  const caption = h("figcaption", { class: "quiet" }, save);
  const shown = (width, height) => caption.prepend(`${width} × ${height} pixels · `);
  return [h("figure", { class: "answer" }, picture(blob, "The image that the model answered", shown), caption)];
}

// Bytes in JSON that are an image.
function encoded(value) {
  const bytes = value && typeof value.b64 === "string" ? value.b64 : "";
  const start = Object.keys(IMAGES).find((one) => bytes.startsWith(one));
  return start ? file(Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0)), IMAGES[start]) : [];
}

function showJson(words) {
  if (words.length > MOST_TEXT) return [code(`${words.slice(0, MOST_TEXT)} …`, true)];
  let value;
  try { value = JSON.parse(words); } catch { /* NaN, for one, is not JSON. */ }
  const pairs = scores(value);
  return [...(pairs.length ? [bars(pairs)] : []), ...encoded(value), code(layOut(words), true)];
}

function refused(answer, words) {
  let message = words;
  try { message = JSON.parse(words).error || words; } catch { /* As it came, then. */ }
  const after = answer.headers.get("retry-after");
  const key = h("p", {}, h("a", { href: "#access", onclick: () => { refusal = message; } }, "Enter the key"));
  return [notice(message, after ? ` Try again in ${after} s.` : ""), wantsKey(answer) ? key : ""];
}

// Shows a response in `result`, and its status and size by `tell`. Returns the error's message, if it is one.
async function showAnswer(answer, start, result, tell) {
  const type = answer.headers.get("content-type") || "";
  if (type.startsWith("text/event-stream")) {
    const progress = (number) => tell(counted(number, "piece"));
    progress(0);
    const { number, failed } = await showPieces(answer.body.getReader(), start, result, progress);
    tell(counted(number, "piece"), failed);
    say(`The stream ended after ${counted(number, "piece")}`);
    return "";
  }
  const bytes = new Uint8Array(await answer.arrayBuffer());
  tell(counted(bytes.byteLength, "byte"));
  say(`Answered ${answer.status}`);
  const words = /^(application\/json|text\/)/.test(type) ? new TextDecoder().decode(bytes) : "";
  if (!answer.ok) result.replaceChildren(...refused(answer, words));
  else if (type.startsWith("application/json")) result.replaceChildren(...showJson(words));
  else result.replaceChildren(...(words ? [code(words.slice(0, MOST_TEXT), true)] : file(bytes, type)));
  return answer.ok ? "" : result.textContent;
}
