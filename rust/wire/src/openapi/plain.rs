//! Schemas of plain requests: values in the types of a model's handler, as JSON, as a form, or as one file.

use super::{
    tensor::{Documented, Elements},
    v1,
};
use crate::rest::plain::bytes_input;
use penstock_core::{Datatype, ModelSpec, TensorSpec};
use serde_json::{Map, Value, json};

/// The body: an object of a value for each input.
pub(super) fn request(spec: &ModelSpec, inputs: &[Documented<'_>]) -> Value {
    let mut object = v1::by_name(spec, inputs, Elements::default(), spec.batching.is_some());
    object["title"] = format!("Plain request of {}", spec.name).into();
    for input in spec.inputs.iter().filter(|input| input.optional) {
        let schema = object["properties"][&*input.name].take();
        object["properties"][&*input.name] = json!({"anyOf": [schema, {"type": "null"}]});
    }
    object
}

/// The response: the value of the only output, or an object of several.
pub(super) fn answer(spec: &ModelSpec, outputs: &[Documented<'_>], nullable: bool) -> Value {
    let elements = Elements { answered: true, nullable, ..Elements::default() };
    v1::values(spec, outputs, elements, spec.batching.is_some())
}

/// Example request; `None` if it is too long or has documents without an example.
pub(super) fn request_example(spec: &ModelSpec) -> Option<Value> {
    v1::example_values(spec, spec.batching.as_ref().map(|_| 1)).map(Value::Object)
}

/// Adds a form and a single file to the bodies, for a model with an input of bytes.
pub(super) fn add_files(spec: &ModelSpec, content: &mut Value) {
    let is_file = |input: &TensorSpec| input.datatype == Datatype::Bytes && !input.document && !input.text;
    if !spec.inputs.iter().any(is_file) {
        return;
    }
    let field = |input: &TensorSpec| {
        let schema = match is_file(input) {
            true => json!({"type": "string", "contentMediaType": "application/octet-stream"}),
            false => json!({"type": "string", "description": "The value as JSON; text as it is."}),
        };
        (input.name.to_string(), schema)
    };
    let required: Vec<&str> = spec.inputs.iter().filter(|input| !input.optional).map(|input| &*input.name).collect();
    let properties: Map<String, Value> = spec.inputs.iter().map(field).collect();
    content["multipart/form-data"] =
        json!({"schema": {"type": "object", "properties": properties, "required": required}});
    if bytes_input(spec).is_ok() {
        content["image/*"] = json!({"schema": {"type": "string", "contentMediaType": "application/octet-stream"}});
    }
}

/// Adds the media type of an output's bytes to the responses.
pub(super) fn add_answers(spec: &ModelSpec, content: &mut Value) {
    if let [only] = &spec.outputs[..]
        && let Some(media) = &only.media_type
    {
        content[&**media] = json!({"schema": {"type": "string", "contentMediaType": &**media}});
    }
}
