//! Schemas of raw-request models: requests and responses of any tensors.

use super::names::reference;
use penstock_core::{Datatype, ModelSpec};
use serde_json::{Value, json};

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

/// Schema of a response with any tensors.
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
