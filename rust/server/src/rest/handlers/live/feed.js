// The events: the whole state, then what changes.

let current = null;
let controller = null;
const headers = new Map();
// Seconds without an event after which the connection counts as lost; the server sends one each second.
const SILENCE = 6;
const LONGEST_WAIT = 10;

// Merges a change: members that are null are gone, and objects are merged.
function merge(into, change) {
  for (const [name, value] of Object.entries(change)) {
    if (value === null) delete into[name];
    else if (typeof value === "object" && !Array.isArray(value) && typeof into[name] === "object" && into[name] !== null && !Array.isArray(into[name])) merge(into[name], value);
    else into[name] = value;
  }
  return into;
}

function take(event) {
  const fields = Object.fromEntries(event.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
  if (!fields.data) return;
  const value = JSON.parse(fields.data);
  const before = current && current.server.started;
  current = fields.event === "delta" && current ? merge(current, value) : value;
  if (fields.event === "state" && before && before !== current.server.started) say("The server was started again");
  remember(current);
  // Apart, so that a fault of drawing is not taken for one of the connection.
  if (!frozen) requestAnimationFrame(redraw);
}

const wait = (seconds) => new Promise((done) => { setTimeout(done, seconds * 1000); });

// Reads the events of one connection. Resolves to the text of a refusal, if the server refused.
async function read(connected) {
  controller = new AbortController();
  let timer = null;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(), SILENCE * 1000);
  };
  try {
    alive();
    const answer = await fetch("live/events", { headers: Object.fromEntries(headers), signal: controller.signal, cache: "no-store" });
    if (!answer.ok) {
      const said = await answer.json().catch(() => ({}));
      return { status: answer.status, text: said.error || `the server answered ${answer.status}` };
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return null;
      alive();
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        connected();
        take(event);
      }
    }
  } finally {
    clearTimeout(timer);
    controller.abort();
  }
}

// Connects, and again after each end. What a key is asked for, or is not for this client, is not tried again by itself.
async function follow() {
  let pause = 1;
  for (;;) {
    const connected = () => { pause = 1; showLink("good", "live"); showNotice(null); };
    const refusal = await read(connected).catch(() => null);
    rememberGap();
    if (refusal && [401, 403, 404].includes(refusal.status)) {
      showLink("bad", "refused");
      return showNotice(refusal);
    }
    showLink("bad", "no connection");
    if (refusal) showNotice(refusal);
    redraw();
    await wait(pause);
    pause = Math.min(LONGEST_WAIT, pause * 2);
  }
}
