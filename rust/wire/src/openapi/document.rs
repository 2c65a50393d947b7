//! The document as a whole.

use super::{
    model::{self, ModelSchemas},
    model_routes,
    names::{Keys, reference, segment},
    responses,
    routes::{Gives, Route, Tag, Takes},
    site::ServerDescription,
};
use serde_json::{Map, Value, json};

/// Components that are the same on every server: schemas, parameters and headers.
const COMPONENTS: &str = include_str!("components.json");

/// The OpenAPI 3.1 document of a server, as JSON.
pub fn document(site: &ServerDescription<'_>) -> Vec<u8> {
    // A constant that a test parses: this cannot fail.
    let mut components: Value = serde_json::from_str(COMPONENTS).unwrap_or_default();
    let mut schemas = std::mem::take(&mut components["schemas"]);
    let mut models = Vec::new();
    if let Value::Object(schemas) = &mut schemas {
        let mut keys = Keys::default();
        models.extend(site.models.iter().map(|served| model::describe(*served, site, &mut keys, schemas)));
    }
    components["schemas"] = schemas;
    components["responses"] = responses::components(site).into();
    add_path_parameters(&mut components["parameters"], site);
    let tags = Tag::ALL.map(|tag| json!({"name": tag.name(), "description": tag.description()}));
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": site.name, "version": site.version, "description": introduction(site)},
        "tags": tags,
        "paths": paths(site, &models),
        "components": components,
    });
    Value::to_string(&document).into_bytes()
}

fn introduction(site: &ServerDescription<'_>) -> String {
    let bounds = &site.bounds;
    format!(
        "The Open Inference Protocol v2. Requests and answers are JSON, or JSON followed by raw tensors when the \
         header `Inference-Header-Content-Length` says how long the JSON is. NaN and infinities are {}.\n\n\
         A body may have {} and {} levels of nesting. What is refused is answered with `{{\"error\": message}}`, \
         whatever the route and the status.",
        if site.strict_json { "written as `null`" } else { "written as `NaN`, `Infinity` and `-Infinity`" },
        responses::bytes(bounds.body_bytes),
        bounds.json_depth,
    )
}

/// `{model}` and `{version}` with the values that they can have.
fn add_path_parameters(parameters: &mut Value, site: &ServerDescription<'_>) {
    let distinct = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.dedup();
        json!({"type": "string", "enum": names})
    };
    // An explainer has the path of its model.
    let specs = || site.models.iter().map(|served| served.spec).filter(|spec| !spec.name.contains(':'));
    for (key, name, values) in [
        ("Model", "model", specs().map(|spec| &*spec.name).collect()),
        ("Version", "version", specs().map(|spec| &*spec.version).collect()),
    ] {
        parameters[key] = json!({"name": name, "in": "path", "required": true, "schema": distinct(values)});
    }
}

fn paths(site: &ServerDescription<'_>, models: &[ModelSchemas<'_>]) -> Map<String, Value> {
    let mut paths = Map::new();
    let mut add = |path: String, method: &str, operation: Value| {
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[method] = operation;
    };
    for route in site.routes {
        if matches!(route.takes, Takes::Nothing | Takes::Json(_)) {
            if !(route.has_model() && models.is_empty()) {
                add(route.path.to_owned(), route.method, operation(route));
            }
            continue;
        }
        let asked = models.iter().filter(|model| model.serves(route));
        for model in asked.filter(|model| route.has_version() || model.served.is_default) {
            let path = route.path.replace("{version}", &segment(&model.served.spec.version));
            add(path.replace("{model}", &segment(model.name())), route.method, model.operation(route, site));
        }
    }
    model_routes::add_routes(&mut paths, models, site);
    paths
}

fn operation(route: &Route) -> Value {
    let content = match route.gives {
        Gives::Json(schema) => json!({"application/json": {"schema": reference("schemas", schema)}}),
        Gives::Text(media_type) => json!({media_type: {"schema": {"type": "string"}}}),
        Gives::OfModel | Gives::Nothing => json!({}),
    };
    let mut responses = match route.gives {
        Gives::Nothing => json!({"204": {"description": route.summary}}),
        _ => json!({"200": {"description": route.summary, "content": content}}),
    };
    if route.may_be_unready {
        responses["503"] = json!({"description": "Not ready; `error` says why.", "content": content});
    }
    let missing = (route.has_model() || route.has_region() || route.has_stream()).then_some(404);
    // Requests with a body may be malformed, too long or unsupported.
    let sent: &[u16] = match route.takes {
        Takes::Json(_) => &[400, 413, 501, 503],
        _ if route.path.contains("sharedmemory") || route.path == "/debug/batching" => &[400, 501],
        _ if route.path == "/debug/stacks" => &[503],
        _ if route.path == "/debug/slow" => &[501],
        _ => &[],
    };
    for status in missing.into_iter().chain(sent.iter().copied()).chain(responses::ANY_ROUTE) {
        responses[status.to_string()] = responses::refusal(status);
    }
    let mut operation =
        json!({"operationId": route.id, "tags": [route.tag.name()], "summary": route.summary, "responses": responses});
    let in_path = [
        (route.has_model(), "Model"),
        (route.has_version(), "Version"),
        (route.has_region(), "Region"),
        (route.has_stream(), "Stream"),
    ];
    let parameters: Vec<Value> =
        in_path.into_iter().filter(|(has, _)| *has).map(|(_, key)| reference("parameters", key)).collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Takes::Json(schema) = route.takes {
        let content = json!({"application/json": {"schema": reference("schemas", schema)}});
        operation["requestBody"] = json!({"content": content});
    }
    operation
}

#[cfg(test)]
mod tests;
