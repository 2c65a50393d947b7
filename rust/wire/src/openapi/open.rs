//! Models that take requests as they are: the schemas of any tensors, and routes of their own.

use super::{answers, inference::Described, names::reference, site::Site};
use penstock_core::{Datatype, ModelSpec, Route};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a literal part of a path cannot hold as it is.
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

/// The group of such routes.
pub(super) const TAG: &str = "routes of models";

/// The methods that OpenAPI has a place for.
const METHODS: [&str; 8] = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"];

/// Of these, those whose requests have no body.
const WITHOUT_BODY: [&str; 5] = ["GET", "DELETE", "OPTIONS", "HEAD", "TRACE"];

/// A request of any tensors.
pub(super) fn request(spec: &ModelSpec) -> Value {
    let input = tensor("InputParameters", &["name", "datatype", "shape", "data"]);
    let named = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"},
        "parameters": reference("schemas", "OutputParameters"),
    }});
    json!({
        "type": "object",
        "title": format!("Request of {}", spec.name),
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string", "description": "Comes back with the answer."},
            "inputs": {"type": "array", "items": input},
            "outputs": {"type": "array", "items": named},
            "parameters": reference("schemas", "RequestParameters"),
        },
    })
}

/// An answer of any tensors.
pub(super) fn answer(spec: &ModelSpec) -> Value {
    json!({
        "type": "object",
        "title": format!("Answer of {}", spec.name),
        "required": ["model_name", "model_version", "outputs"],
        "properties": {
            "model_name": {"const": &*spec.name},
            "model_version": {"const": &*spec.version},
            "id": {"type": "string", "description": "That of the request, if it has one."},
            "parameters": reference("schemas", "Parameters"),
            "outputs": {"type": "array", "items": tensor("Parameters", &["name", "datatype", "shape"])},
        },
    })
}

fn tensor(parameters: &str, required: &[&str]) -> Value {
    let datatypes: Vec<&str> = Datatype::ALL.iter().map(|datatype| datatype.name()).collect();
    json!({
        "type": "object",
        "required": required,
        "properties": {
            "name": {"type": "string"},
            "datatype": {"enum": datatypes},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "data": {"type": "array", "items": {}},
            "parameters": reference("schemas", parameters),
        },
    })
}

/// Adds the routes of models to a document's paths, each in place of a built-in one of the same path and method.
pub(super) fn add_routes(paths: &mut Map<String, Value>, models: &[Described<'_>], site: &Site<'_>) {
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

/// The path with names in braces, as OpenAPI has it.
fn template(route: &Route, names: &[String]) -> String {
    let mut names = names.iter();
    let named = |_: &str| format!("{{{}}}", names.next().map_or("", String::as_str));
    route.written(|text| utf8_percent_encode(text, LITERAL).to_string(), named)
}

fn operation(spec: &ModelSpec, route: &Route, names: &[String], id: &str, site: &Site<'_>) -> Value {
    let parameter = |name: &String| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    let any = json!({"*/*": {"schema": {}}});
    let mut responses = json!({"default": {"description": "What the model answers.", "content": any}});
    for status in answers::of_inference(site) {
        responses[status.to_string()] = answers::refusal(status);
    }
    let mut operation = json!({
        "operationId": id,
        "tags": [TAG],
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
