// The head of the page, notices, and when it is drawn.

function showLink(kind, words) {
  const chip = byId("link");
  if (chip.textContent !== words && chip.textContent !== "connecting") say(`This page: ${words}`);
  chip.className = `chip ${kind}`;
  put(chip, words);
}

// Why there are no figures. A key that is asked for can be entered; it stays in the memory of this page.
function showNotice(refusal) {
  const place = byId("notice");
  if (!refusal) return place.replaceChildren();
  const words = h("p", { class: "notice", role: "alert" }, refusal.text);
  const again = (event) => { event.preventDefault(); place.replaceChildren(); follow(); };
  if (refusal.status === 503) return place.replaceChildren(words);
  const named = /expecting header '([^']+)'/.exec(refusal.text);
  const wantsKey = refusal.status === 401 || refusal.text.startsWith("key '");
  if (!named && !wantsKey) return place.replaceChildren(words, h("button", { type: "button", class: "send", onclick: again }, "Try again"));
  const name = h("input", { id: "header", value: named ? named[1] : "authorization", autocomplete: "off", spellcheck: "false", required: true });
  const secret = h("input", { id: "secret", type: "password", autocomplete: "off", required: true });
  const use = (event) => {
    const key = name.value.trim().toLowerCase();
    const value = key === "authorization" && !secret.value.includes(" ") ? `Bearer ${secret.value}` : secret.value;
    try {
      new Headers([[key, value]]);
    } catch {
      event.preventDefault();
      return put(words, "No request can carry that header.");
    }
    headers.set(key, value);
    again(event);
  };
  return place.replaceChildren(words, h("form", { onsubmit: use },
    h("label", { for: "header" }, "Header"), name, h("label", { for: "secret" }, "Key"), secret,
    h("button", { type: "submit", class: "send" }, "Use it")));
}

function drawHead({ server }) {
  put(byId("name"), server.name);
  const phase = byId("phase");
  put(phase, server.phase);
  phase.className = `chip ${server.phase === "ready" ? "good" : ""}`;
  put(byId("about"), `${server.version} · up ${age((server.time - server.started) / 1000)} · process ${server.pid} · ${clock(server.time)}`);
  document.title = `${server.name} live`;
}

// Draws all, unless it is paused, hidden, or nothing is known yet.
function redraw() {
  if (!current || document.hidden) return;
  const known = shown().models;
  if (!(selected in known)) selected = wanted in known ? wanted : (ordered(known)[0] || [""])[0];
  byId("live").hidden = false;
  drawHead(shown());
  for (const draw of [drawTiles, drawModels, drawDetail, drawErrors, drawRequests, drawProcesses]) draw(shown());
}

// What is drawn: the state and its past, or copies of those when it was paused.
let frozen = null;
const shown = () => (frozen ? frozen.state : current);
const pastOf = (key) => (frozen ? frozen.past : histories).get(key);
const wanted = decodeURIComponent(location.hash.slice(1));

byId("pause").addEventListener("click", (event) => {
  frozen = frozen || !current ? null : structuredClone({ state: current, past: histories });
  mark(event.target, "aria-pressed", Boolean(frozen));
  put(event.target, frozen ? "Resume" : "Pause");
  say(frozen ? "Paused" : "Resumed");
  redraw();
});
document.addEventListener("visibilitychange", redraw);
addEventListener("pagehide", () => { if (controller) controller.abort(); });

follow();
