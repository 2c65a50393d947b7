//! The schema of a model's answer.

use super::{
    inference::{Documented, one_of},
    names::reference,
    site::max_rows,
    tensor::{self, Elements},
};
use penstock_core::{Datatype, ModelSpec, TensorSpec, classify};
use serde_json::{Value, json};

/// What the model answers.
pub(super) fn answer(spec: &ModelSpec, outputs: &[Documented<'_>], strict_json: bool) -> Value {
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
