// Parts of the page. Names, descriptions and answers are text: elements are made with textContent only, never
// from markup.

// The longest side of an image that is drawn.
const MOST_PIXELS = 2048;

const byId = (id) => document.getElementById(id);
const say = (words) => { byId("said").textContent = words; };
const counted = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;

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

function code(words, wrap) {
  const block = h("pre", { tabindex: "0", class: wrap ? "wrap" : "" }, h("code", {}, words));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(words);
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

// Tabs over one panel. `parts`: the name of each, and a function that returns its nodes. `again` draws the open one.
function tabs(label, id, parts) {
  const panel = h("div", { role: "tabpanel", id });
  let open = 0;
  const again = () => panel.replaceChildren(...[parts[open][1]()].flat().filter(Boolean));
  const show = (index) => {
    open = index;
    buttons.forEach((button, other) => {
      button.setAttribute("aria-selected", other === index);
      button.tabIndex = other === index ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `${id}-tab${index}`);
    again();
  };
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (buttons.indexOf(event.target) + step + buttons.length) % buttons.length;
    show(next);
    buttons[next].focus();
  };
  const buttons = parts.map(([name], index) => h("button", {
    type: "button", role: "tab", id: `${id}-tab${index}`, "aria-controls": id, onclick: () => show(index), onkeydown: move,
  }, name));
  show(0);
  return { nodes: [h("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons), panel], again };
}

function table(heads, rows, kind) {
  const head = h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)));
  // On a narrow screen there is no head: each cell says what it is, but for the first.
  for (const row of kind === "stack" ? rows : []) [...row.children].slice(1).forEach((cell, index) => { cell.dataset.head = heads[index + 1]; });
  return h("div", { class: `table ${kind || ""}`, tabindex: "0" }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
}

// An image file, drawn: the page's policy loads no images, not even those in memory. `shown` gets its width and height.
function picture(blob, label, shown) {
  const canvas = h("canvas", { role: "img", "aria-label": label });
  createImageBitmap(blob).then((bitmap) => {
    const scale = Math.min(1, MOST_PIXELS / Math.max(bitmap.width, bitmap.height));
    [canvas.width, canvas.height] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.round(side * scale)));
    canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    shown(bitmap.width, bitmap.height);
    bitmap.close();
  }).catch(() => canvas.replaceWith(h("p", { class: "quiet" }, "This browser cannot show the image.")));
  return canvas;
}

// What stands between backticks is code; all else is text.
const marked = (words) => words.split(/`+/).map((part, index) => (index % 2 ? h("code", {}, part) : part));
const prose = (words) => h("p", { class: "lead" }, marked(words));
const chip = (kind, words) => h("span", { class: `chip ${kind}` }, words);
const notice = (...words) => h("p", { class: "notice", role: "alert" }, words);

// Whether a key is missing, wrong or not enough.
const wantsKey = (answer) => answer.status === 401 || answer.status === 403;

// A chip that says whether a route answers 200.
function readiness(path) {
  const found = chip("", "asking");
  ask(path).then(async (answer) => {
    const said = answer.ok ? {} : await answer.json().catch(() => ({}));
    found.className = `chip ${answer.ok ? "good" : "bad"}`;
    found.textContent = answer.ok ? "ready" : wantsKey(answer) ? "asks for a key" : "not ready";
    if (said.error) found.title = said.error;
  }).catch(() => {
    found.className = "chip bad";
    found.textContent = "no answer";
  });
  return found;
}

// The headers that this page's requests carry. `changed` is called when they are others.
function accessView(refusal, changed) {
  const wanted = /header '([^']+)'/.exec(refusal || "");
  const name = h("input", { id: "header", value: wanted ? wanted[1] : "authorization", autocomplete: "off", spellcheck: "false", required: true });
  const secret = h("input", { id: "secret", type: "password", autocomplete: "off", required: true });
  const wrong = h("div", {});
  const use = (event) => {
    event.preventDefault();
    const key = name.value.trim().toLowerCase();
    const value = key === "authorization" && !secret.value.includes(" ") ? `Bearer ${secret.value}` : secret.value;
    try {
      new Headers([[key, value]]);
    } catch {
      wrong.replaceChildren(notice("No request can carry that header."));
      return;
    }
    secrets.set(key, value);
    changed();
  };
  const remove = (key) => { secrets.delete(key); changed(); };
  const rows = [...secrets.keys()].map((key) => h("tr", {},
    h("td", { class: "mono" }, key), h("td", { class: "quiet" }, "is sent"),
    h("td", { class: "end" }, h("button", { type: "button", class: "plain", onclick: () => remove(key) }, "Forget"))));
  return [
    h("div", { class: "title" }, h("h1", {}, "Access")),
    refusal && notice(refusal),
    h("p", { class: "lead" }, "Where the server asks for a key, enter it here. Every request of this page then carries it. It stays in the memory of this page, and is gone once the page is closed or loaded again."),
    h("form", { class: "access", onsubmit: use },
      h("label", { for: "header" }, "Header"), name,
      h("label", { for: "secret" }, "Key"), secret,
      h("button", { type: "submit", class: "send" }, "Use it")),
    wrong,
    rows.length ? table(["Header", "", ""], rows, "secrets") : null,
  ];
}
