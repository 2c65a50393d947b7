// The list of models, and the search over models and routes.

const MOST_FOUND = 20;
let query = "";

const searched = (model) => `${model.model} ${model.description} ${model.routes.join(" ")}`.toLowerCase();
const searchedRoute = (route) => `${route.method} ${route.path} ${route.summary}`.toLowerCase();
const matches = (words) => query.toLowerCase().split(/\s+/).every((word) => words.includes(word));
const routeTarget = (route) => `#routes/${encodeURIComponent(route.id)}`;

// Hides what the query does not find, on every view.
function search() {
  for (const one of document.querySelectorAll("[data-search]")) one.hidden = !matches(one.dataset.search);
  for (const one of document.querySelectorAll("section, main .folded")) {
    const rows = [...one.querySelectorAll("tr[data-search]")];
    one.hidden = rows.length > 0 && rows.every((row) => row.hidden);
  }
  const found = query ? routes.filter((route) => matches(searchedRoute(route))) : [];
  const links = found.slice(0, MOST_FOUND).map((route) => h("li", {}, h("a", { href: routeTarget(route) }, h("span", {}, route.method, " ", route.path))));
  const more = found.length > MOST_FOUND ? h("li", { class: "quiet" }, `and ${found.length - MOST_FOUND} more`) : "";
  byId("found").replaceChildren(...(links.length ? [h("p", { class: "label" }, "Routes found"), h("ul", {}, links, more)] : []));
  if (query) say(`${counted(models.filter((model) => matches(searched(model))).length, "model")}, ${counted(found.length, "route")}`);
}

function drawSide() {
  const item = (href, words, version) => h("a", { href }, words, version ? h("span", { class: "version" }, version) : null);
  const list = h("ul", {}, models.filter((model) => !model.under).map((model) => h("li", { "data-search": searched(model) },
    item(target(model), model.model, `v${model.version}`),
    folded(models.filter((one) => one.under === model), (one) => item(target(one), one.model, `v${one.version}`)))));
  const box = h("input", { type: "search", id: "search", value: query, placeholder: "Models and routes", "aria-label": "Search models and routes", autocomplete: "off" });
  box.addEventListener("input", () => { query = box.value.trim(); search(); });
  const server = [...(api ? [["#all", "Overview"], ["#routes", "Routes"]] : []), ["#access", "Access", secrets.size ? "key set" : ""]];
  byId("side").replaceChildren(
    ...(api ? [box] : []),
    h("p", { class: "label" }, "Server"), h("ul", {}, server.map((one) => h("li", {}, item(...one)))),
    ...(models.length ? [h("p", { class: "label" }, "Models"), list] : []),
    h("div", { id: "found" }));
}
