// The form that sends a request, and shows what comes back as it comes.

const MOST_PIECES = 500;

// Each event's data, in the lists that arrive together.
async function* events(reader) {
  const decoder = new TextDecoder();
  let left = "";
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    const parts = (left + decoder.decode(chunk.value, { stream: true })).split("\n\n");
    left = parts.pop();
    yield parts.map((event) => event.replace(/^data: ?/gm, ""));
  }
}

// A list of pieces, the newest `MOST_PIECES` of them.
async function showPieces(reader, start, result, progress) {
  const list = h("ol", { class: "pieces", tabindex: "0", "aria-label": "Pieces" });
  let number = 0;
  let failed = false;
  result.replaceChildren(list);
  for await (const arrived of events(reader)) {
    const when = `${((performance.now() - start) / 1000).toFixed(2)} s`;
    list.append(...arrived.map((piece) => {
      const isError = piece.startsWith('{"error":');
      failed = failed || isError;
      return h("li", { class: isError ? "bad" : "" }, h("span", { class: "when" }, when), h("code", {}, piece));
    }));
    while (list.children.length > MOST_PIECES) list.firstChild.remove();
    number += arrived.length;
    list.scrollTop = list.scrollHeight;
    progress(number);
  }
  if (!number) result.replaceChildren(h("p", { class: "quiet" }, "The stream ended without a piece."));
  return { number, failed };
}

// Fields for the sequence's parameters, which change what is written in `field`.
function sequenceFields(field) {
  const write = (name, value) => {
    field.value = field.value.replace(new RegExp(`("${name}"\\s*:\\s*)("(?:[^"\\\\]|\\\\.)*"|[^\\s,}]+)`), (_, head) => head + value);
  };
  const id = h("input", { id: "sequence", value: "1", autocomplete: "off", spellcheck: "false" });
  id.addEventListener("input", () => write("sequence_id", /^\d+$/.test(id.value) ? id.value : JSON.stringify(id.value)));
  const box = (name) => {
    const found = h("input", { type: "checkbox", id: name, checked: true });
    found.addEventListener("change", () => write(name, found.checked));
    return found;
  };
  const [first, last] = [box("sequence_start"), box("sequence_end")];
  // The request after this one: the first of the next sequence, or another of this one.
  const next = () => {
    first.checked = last.checked;
    write("sequence_start", first.checked);
  };
  const row = h("div", { class: "sequence" },
    h("label", { for: "sequence" }, "Sequence"), id,
    h("label", {}, first, "first request"), h("label", {}, last, "last request"));
  return { row, next };
}

function attempt(model) {
  const isLong = elements(model) > MOST_SHOWN;
  const field = h("textarea", { spellcheck: "false", autocomplete: "off", "aria-label": "Request body, JSON" });
  field.value = isLong ? "" : layOut(request(model));
  field.rows = Math.min(24, Math.max(6, field.value.split("\n").length));
  const sequence = model.sequences && !isLong ? sequenceFields(field) : null;
  const outcome = h("span", { class: "outcome" });
  const result = h("div", {});
  let under = null;

  const send = async () => {
    under = new AbortController();
    button.textContent = "Stop";
    outcome.replaceChildren(h("span", { class: "quiet" }, "Sending …"));
    result.replaceChildren();
    const start = performance.now();
    try {
      const answer = await ask(model.path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: isLong && !field.value ? request(model) : field.value,
        signal: under.signal,
      });
      await show(answer, start);
      if (answer.ok && sequence) sequence.next();
    } catch (error) {
      const stopped = error.name === "AbortError";
      outcome.replaceChildren(stopped ? chip("", "stopped") : chip("bad", "no answer"), h("span", { class: "quiet" }, stopped ? "" : String(error.message || error)));
    }
    under = null;
    button.textContent = "Send";
  };

  const tell = (answer, start, detail) => {
    const status = `${answer.status} ${answer.statusText}`.trim();
    const took = performance.now() - start;
    const time = took < 1000 ? `${took.toFixed(1)} ms` : `${(took / 1000).toFixed(2)} s`;
    outcome.replaceChildren(chip(answer.ok ? "good" : "bad", status), h("span", { class: "quiet" }, `${time} · ${detail}`));
  };

  const show = async (answer, start) => {
    const type = answer.headers.get("content-type") || "";
    if (type.startsWith("text/event-stream")) {
      const progress = (number) => tell(answer, start, counted(number, "piece"));
      progress(0);
      const { number, failed } = await showPieces(answer.body.getReader(), start, result, progress);
      progress(number);
      if (failed) outcome.append(chip("bad", "ended with an error"));
      say(`The stream ended after ${counted(number, "piece")}`);
      return;
    }
    const bytes = new Uint8Array(await answer.arrayBuffer());
    tell(answer, start, counted(bytes.byteLength, "byte"));
    say(`Answered ${answer.status}`);
    if (!type.startsWith("application/json")) {
      result.replaceChildren(h("p", { class: "quiet" }, "The answer is binary and is not shown."));
      return;
    }
    const words = new TextDecoder().decode(bytes);
    if (answer.ok) result.replaceChildren(code(words.length > 1e5 ? `${words.slice(0, 1e5)} …` : layOut(words), true));
    else refused(answer, words);
  };

  const refused = (answer, words) => {
    let message = words;
    try { message = JSON.parse(words).error || words; } catch { /* As it came, then. */ }
    const after = answer.headers.get("retry-after");
    result.replaceChildren(notice(message, after ? ` Try again in ${after} s.` : ""));
    if (answer.status === 403) {
      result.append(h("p", {}, h("a", { href: "#access", onclick: () => { refusal = message; } }, "Enter the key")));
    }
  };

  const button = h("button", { type: "button", class: "send", onclick: () => (under ? under.abort() : send()) }, "Send");
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); if (!under) send(); }
  });
  const note = isLong
    ? h("p", { class: "under" }, `The example has ${counted(elements(model), "element")}, too many to show: it is made when it is sent. What is written here is sent instead.`)
    : model.inputs.some((input) => input.schema && input.example === null)
      ? h("p", { class: "under" }, "No example can be made of this model's document: write yours in place of {}.")
      : null;
  return [h("h2", {}, "Try it"), sequence && sequence.row, field, note, h("div", { class: "act" }, button, outcome), result];
}
