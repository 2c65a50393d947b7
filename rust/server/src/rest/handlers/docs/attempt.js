// Sending a request, and the text of a request of the protocol.

// A button that sends what `build` returns, and a place for what comes back. `done` is called with the response and
// the message of its error.
function sender(path, build, done) {
  const outcome = h("span", { class: "outcome" });
  const result = h("div", { class: "result" });
  let under = null;

  const send = async () => {
    let body;
    try {
      body = build();
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      outcome.replaceChildren(chip("bad", "not sent"));
      result.replaceChildren(notice(error.message));
      error.control.setAttribute("aria-invalid", "true");
      error.control.focus();
      return;
    }
    under = new AbortController();
    button.textContent = "Stop";
    outcome.replaceChildren(h("span", { class: "quiet" }, "Sending …"));
    result.querySelectorAll("a[download]").forEach((one) => URL.revokeObjectURL(one.href));
    result.replaceChildren();
    const start = performance.now();
    try {
      // The browser itself names the boundary of a form.
      const headers = body instanceof FormData ? {} : { "Content-Type": "application/json" };
      const answer = await ask(path, { method: "POST", headers, body, signal: under.signal });
      const tell = (detail, failed) => {
        const took = performance.now() - start;
        const time = took < 1000 ? `${took.toFixed(1)} ms` : `${(took / 1000).toFixed(2)} s`;
        outcome.replaceChildren(
          chip(answer.ok ? "good" : "bad", `${answer.status} ${answer.statusText}`.trim()),
          h("span", { class: "quiet" }, `${time} · ${detail}`), failed ? chip("bad", "ended with an error") : "");
      };
      done(answer, await showAnswer(answer, start, result, tell));
    } catch (error) {
      const stopped = error.name === "AbortError";
      outcome.replaceChildren(stopped ? chip("", "stopped") : chip("bad", "no answer"), h("span", { class: "quiet" }, stopped ? "" : String(error.message || error)));
    }
    under = null;
    button.textContent = "Send";
  };

  const button = h("button", { type: "button", class: "send", onclick: () => (under ? under.abort() : send()) }, "Send");
  const listen = (area) => area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); if (!under) send(); }
  });
  return { nodes: [h("div", { class: "act" }, button, outcome), result], listen };
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

// The text of a request of the protocol.
function attempt(model) {
  const isLong = elements(model) > MOST_SHOWN;
  const field = h("textarea", { spellcheck: "false", autocomplete: "off", class: "mono request", "aria-label": "Request body, JSON" });
  field.value = isLong ? "" : layOut(request(model));
  field.rows = Math.min(24, Math.max(6, field.value.split("\n").length));
  const sequence = model.sequences && !isLong ? sequenceFields(field) : null;
  const sending = sender(model.path, () => (isLong && !field.value ? request(model) : field.value),
    (answer) => { if (answer.ok && sequence) sequence.next(); });
  sending.listen(field);
  const note = isLong
    ? h("p", { class: "under" }, `The example has ${counted(elements(model), "element")}, too many to show: it is made when it is sent. What is written here is sent instead.`)
    : model.inputs.some((input) => input.schema && input.example === null)
      ? h("p", { class: "under" }, "No example can be made of this model's document: write yours in place of {}.")
      : null;
  return [h("h2", {}, "Try it"), sequence && sequence.row, field, note, ...sending.nodes];
}
