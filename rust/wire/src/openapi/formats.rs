//! Bodies in array formats. Only msgpack has a schema; the others have a description.

use super::{names::reference, site::max_rows, tensor};
use crate::rest::bodies::Format;
use penstock_core::{ModelSpec, TensorSpec};
use serde_json::{Map, Value, json};

/// Adds a model's requests by content type: the formats that have a place for all that it needs.
pub(super) fn add_requests(spec: &ModelSpec, key: &str, content: &mut Value) {
    let takes = |format: &Format| {
        let holds = |input: &TensorSpec| format.holds(input.datatype);
        let all = spec.inputs.iter().all(|input| input.optional || holds(input));
        all && spec.inputs.iter().any(holds) && (*format != Format::Npy || spec.inputs.len() == 1)
    };
    for format in Format::ALL.into_iter().filter(takes) {
        content[format.content_type()] = body(format, spec, &spec.inputs, &format!("{key}.PackedRequest"));
    }
}

/// Adds a model's responses by content type: the formats that can hold one of its outputs.
pub(super) fn add_answers(spec: &ModelSpec, key: &str, content: &mut Value) {
    let gives = |format: &Format| spec.outputs.iter().any(|output| format.holds(output.datatype));
    for format in Format::ALL.into_iter().filter(gives) {
        content[format.content_type()] = body(format, spec, &spec.outputs, &format!("{key}.PackedAnswer"));
    }
}

/// Adds the schemas of a model's bodies in msgpack.
pub(super) fn add_schemas(spec: &ModelSpec, key: &str, schemas: &mut Map<String, Value>) {
    let id = json!({"type": "string"});
    let request = json!({
        "type": "object",
        "title": format!("Request of {} in msgpack", spec.name),
        "required": ["inputs"],
        "properties": {
            "id": id,
            "inputs": {"type": "array", "maxItems": spec.inputs.len(), "items": packed(spec, &spec.inputs)},
            "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
            "parameters": reference("schemas", "RequestParameters"),
        },
    });
    let answer = json!({
        "type": "object",
        "title": format!("Answer of {} in msgpack", spec.name),
        "required": ["model_name", "model_version", "outputs"],
        "properties": {
            "model_name": {"const": &*spec.name},
            "model_version": {"const": &*spec.version},
            "id": id,
            "parameters": reference("schemas", "Parameters"),
            "outputs": {"type": "array", "maxItems": spec.outputs.len(), "items": packed(spec, &spec.outputs)},
        },
    });
    schemas.insert(format!("{key}.PackedRequest"), request);
    schemas.insert(format!("{key}.PackedAnswer"), answer);
}

fn packed(spec: &ModelSpec, tensors: &[TensorSpec]) -> Value {
    let item = |one: &TensorSpec| {
        json!({
            "type": "object",
            "required": ["name", "data"],
            "properties": {
                "name": {"const": &*one.name},
                "datatype": {"const": one.datatype.name()},
                "shape": tensor::shape(one, spec.batching.is_some(), max_rows(spec)),
                "data": {"description": "Bytes as they lie in memory, little-endian; or a list."},
            },
        })
    };
    match tensors {
        [] => Value::Bool(false),
        tensors => json!({"anyOf": tensors.iter().map(item).collect::<Vec<_>>()}),
    }
}

/// Schema or description of a body.
fn body(format: Format, spec: &ModelSpec, tensors: &[TensorSpec], schema: &str) -> Value {
    if format == Format::Msgpack {
        return json!({"schema": reference("schemas", schema)});
    }
    let held: Vec<String> = tensors
        .iter()
        .filter(|tensor| format.holds(tensor.datatype))
        .map(|tensor| {
            let shape = tensor.wire_shape(spec.batching.is_some());
            format!("`{}` {} {shape:?}", tensor.name, tensor.datatype)
        })
        .collect();
    let what = match format {
        Format::Npy if held.len() > 1 => "One array as `numpy.save` writes it, named by the query's `output`",
        Format::Npy => "One array as `numpy.save` writes it",
        Format::Npz => "Arrays by name as `numpy.savez` writes them",
        Format::Msgpack => "A map",
        Format::Arrow => "An Arrow IPC stream of one record batch, whose columns are",
        Format::Safetensors => "Tensors by name in the safetensors format",
    };
    json!({"schema": {"description": format!("{what}: {}.", held.join(", "))}})
}
