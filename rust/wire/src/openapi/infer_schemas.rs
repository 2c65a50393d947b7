//! Schemas of a model's inference request and response.

use super::{
    names::{one_of, reference},
    site::max_rows,
    tensor::{self, Documented, Elements},
};
use penstock_core::{Datatype, ModelSpec, TensorSpec, classify};
use serde_json::{Value, json};

/// Schema of the request.
pub(super) fn request(spec: &ModelSpec, inputs: &[Documented<'_>]) -> Value {
    let items: Vec<Value> = inputs.iter().map(|(tensor, document)| input(spec, tensor, document.as_deref())).collect();
    let required = spec.inputs.iter().filter(|input| !input.optional).count();
    let mut listed = json!({"type": "array", "minItems": required, "maxItems": items.len()});
    // With one input the bounds suffice; else each is there once, in any order.
    if items.len() > 1 {
        let once = |input: &TensorSpec| json!({"contains": named(&input.name), "minContains": usize::from(!input.optional), "maxContains": 1});
        listed["allOf"] = spec.inputs.iter().map(once).collect();
    }
    listed["items"] = one_of(items);
    json!({
        "type": "object",
        "title": format!("Request of {}", spec.name),
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string", "description": "Comes back with the answer."},
            "inputs": listed,
            "outputs": requested(&spec.outputs),
            "parameters": reference("schemas", "RequestParameters"),
        },
    })
}

/// Schema of the requested outputs; none, or no list, means all.
fn requested(outputs: &[TensorSpec]) -> Value {
    let one = |output: &TensorSpec| {
        let kind = if classify::check(output).is_ok() { "ClassifiedParameters" } else { "OutputParameters" };
        let mut item = named(&output.name);
        item["properties"]["parameters"] = reference("schemas", kind);
        item
    };
    let mut listed = json!({
        "type": "array",
        "description": "The outputs to answer with, in this order; all if it is left out or empty.",
        "maxItems": outputs.len(),
    });
    listed["items"] = one_of(outputs.iter().map(one).collect());
    if outputs.len() > 1 {
        let once = |output: &TensorSpec| json!({"contains": named(&output.name), "minContains": 0, "maxContains": 1});
        listed["allOf"] = outputs.iter().map(once).collect();
    }
    listed
}

fn named(name: &str) -> Value {
    json!({"type": "object", "required": ["name"], "properties": {"name": {"const": name}}})
}

fn input(spec: &ModelSpec, tensor: &TensorSpec, document: Option<&str>) -> Value {
    let (batched, rows) = (spec.batching.is_some(), max_rows(spec));
    let element = tensor::element(tensor.datatype, Elements { document, ..Elements::default() });
    json!({
        "type": "object",
        "title": format!("Input {}", tensor.name),
        "required": ["name", "datatype", "shape", "data"],
        "properties": {
            "name": {"const": &*tensor.name},
            "datatype": {"const": tensor.datatype.name()},
            "shape": tensor::shape(tensor, batched, rows),
            "data": tensor::data(tensor, batched, rows, &element),
            "parameters": reference("schemas", "InputParameters"),
        },
    })
}

/// Schema of the response.
pub(super) fn response(spec: &ModelSpec, outputs: &[Documented<'_>], strict_json: bool) -> Value {
    let items = outputs.iter().flat_map(|(tensor, document)| {
        let nullable = strict_json && tensor.datatype != Datatype::Bytes;
        let elements = Elements { document: document.as_deref(), answered: true, nullable };
        let shape = tensor::shape(tensor, spec.batching.is_some(), max_rows(spec));
        let computed = output(tensor, tensor.datatype, &shape, &tensor::element(tensor.datatype, elements));
        let text = tensor::element(Datatype::Bytes, Elements::default());
        let classified =
            classify::check(tensor).is_ok().then(|| output(tensor, Datatype::Bytes, &json!({"type": "array"}), &text));
        [Some(computed), classified].into_iter().flatten()
    });
    let items: Vec<Value> = items.collect();
    json!({
        "type": "object",
        "title": format!("Answer of {}", spec.name),
        "required": ["model_name", "model_version", "outputs"],
        "properties": {
            "model_name": {"const": &*spec.name},
            "model_version": {"const": &*spec.version},
            "id": {"type": "string", "description": "That of the request, if it has one."},
            "parameters": reference("schemas", "Parameters"),
            "outputs": {"type": "array", "maxItems": outputs.len(), "items": one_of(items)},
        },
    })
}

fn output(tensor: &TensorSpec, datatype: Datatype, shape: &Value, element: &Value) -> Value {
    json!({
        "type": "object",
        "title": format!("Output {}", tensor.name),
        "required": ["name", "datatype", "shape"],
        "properties": {
            "name": {"const": &*tensor.name},
            "datatype": {"const": datatype.name()},
            "shape": shape,
            "data": {"type": "array", "items": element},
            "parameters": reference("schemas", "Parameters"),
        },
    })
}
