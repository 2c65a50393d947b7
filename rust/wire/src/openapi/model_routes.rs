//! Routes that models declare themselves.

use super::{model::ModelSchemas, responses, routes::Tag, site::ServerDescription};
use penstock_core::{ModelSpec, Route};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Characters to escape in a literal part of a path.
const LITERAL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'@')
    .remove(b'=')
    .remove(b',')
    .remove(b'+');

/// The methods that OpenAPI has a place for.
const METHODS: [&str; 8] = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"];

/// Of these, those whose requests have no body.
const WITHOUT_BODY: [&str; 5] = ["GET", "DELETE", "OPTIONS", "HEAD", "TRACE"];

/// Adds the routes of models to a document's paths, each in place of a built-in one of the same path and method.
pub(super) fn add_routes(paths: &mut Map<String, Value>, models: &[ModelSchemas<'_>], site: &ServerDescription<'_>) {
    // Paths that differ only in what their parts are called are one path here.
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut added = BTreeSet::new();
    let routes = models.iter().filter(|model| model.served.is_default);
    for (model, route) in routes.flat_map(|model| model.served.spec.routes.iter().map(move |route| (model, route))) {
        if !METHODS.contains(&route.method()) {
            continue;
        }
        let blank = template(route, &vec![String::new(); route.names().count()]);
        let names = known.entry(blank).or_insert_with(|| route.names().map(|name| (**name).to_owned()).collect());
        let (path, method) = (template(route, names), route.method().to_ascii_lowercase());
        if added.insert((path.clone(), method.clone())) {
            let id = format!("route_{}_{}", added.len(), model.key());
            paths.entry(path).or_insert_with(|| json!({}))[method] =
                operation(model.served.spec, route, names, &id, site);
        }
    }
}

/// The path with names in braces.
fn template(route: &Route, names: &[String]) -> String {
    let mut names = names.iter();
    let named = |_: &str| format!("{{{}}}", names.next().map_or("", String::as_str));
    route.written(|text| utf8_percent_encode(text, LITERAL).to_string(), named)
}

fn operation(spec: &ModelSpec, route: &Route, names: &[String], id: &str, site: &ServerDescription<'_>) -> Value {
    let parameter = |name: &String| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    let any = json!({"*/*": {"schema": {}}});
    let mut responses = json!({"default": {"description": "What the model answers.", "content": any}});
    for status in responses::inference_statuses(site) {
        responses[status.to_string()] = responses::refusal(status);
    }
    let mut operation = json!({
        "operationId": id,
        "tags": [Tag::OfModels.name()],
        "summary": format!("A route of {}", spec.name),
        "description": &*spec.description,
        "parameters": names.iter().map(parameter).collect::<Vec<_>>(),
        "responses": responses,
    });
    if !WITHOUT_BODY.contains(&route.method()) {
        operation["requestBody"] = json!({"content": any});
    }
    operation
}
