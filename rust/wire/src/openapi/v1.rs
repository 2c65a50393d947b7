//! Schemas of KServe's V1 protocol: instances of nested values, no tensors.

use super::{
    example,
    names::reference,
    site::max_rows,
    tensor::{self, Axis, Documented, Elements, array},
};
use penstock_core::{Datatype, ModelSpec, TensorSpec};
use serde_json::{Map, Value, json};

/// The body of `:predict` and `:explain`.
pub(super) fn request(spec: &ModelSpec, inputs: &[Documented<'_>]) -> Value {
    let batched = spec.batching.is_some();
    let rows = |with_batch: bool| values(spec, inputs, Elements::default(), with_batch);
    json!({
        "type": "object",
        "title": format!("V1 request of {}", spec.name),
        "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}],
        "properties": {
            "instances": {
                "type": "array",
                "items": rows(false),
                "maxItems": max_rows(spec).unwrap_or(spec.max_queue),
                "description": if batched { "The rows of a batch." } else { "Each is a call of its own." },
            },
            "inputs": rows(batched),
            "parameters": {"anyOf": [reference("schemas", "RequestParameters"), {"type": "null"}]},
        },
    })
}

/// Schema of the response of `:predict`, or of `:explain` if `spec` is an explainer.
pub(super) fn answer(spec: &ModelSpec, outputs: &[Documented<'_>], explains: bool, nullable: bool) -> Value {
    let elements = Elements { answered: true, nullable, ..Elements::default() };
    let instances = json!({"type": "array", "items": values(spec, outputs, elements, false)});
    let whole = values(spec, outputs, elements, spec.batching.is_some());
    if explains {
        let properties = json!({"explanations": {"anyOf": [instances, whole]}});
        return json!({"type": "object", "required": ["explanations"], "properties": properties});
    }
    json!({
        "type": "object",
        "title": format!("V1 answer of {}", spec.name),
        "oneOf": [{"required": ["predictions"]}, {"required": ["outputs"]}],
        "properties": {"predictions": instances, "outputs": whole},
    })
}

/// Example request of one instance; `None` if it is too long or has documents without an example.
pub(super) fn request_example(spec: &ModelSpec) -> Option<Value> {
    let mut named = example_values(spec, None)?;
    let instance = match spec.inputs.as_slice() {
        [only] => named.remove(&*only.name)?,
        _ => named.into(),
    };
    Some(example::with_sequence(spec, json!({"instances": [instance]})))
}

/// Example values by input name, with a batch axis of `rows` if set; `None` if they are too long or have documents
/// without an example.
pub(super) fn example_values(spec: &ModelSpec, rows: Option<usize>) -> Option<Map<String, Value>> {
    let mut named = Map::new();
    for input in example::sent(spec)? {
        let element = match (&input.described, example::element(input)?) {
            (Some(_), Value::String(text)) => serde_json::from_str(&text).ok()?,
            (_, element) => element,
        };
        let nest = |inner: Value, &axis: &usize| Value::Array(vec![inner; axis]);
        named.insert(input.name.to_string(), example::shape(input, rows).iter().rev().fold(element, nest));
    }
    Some(named)
}

/// One value of each tensor: an object by name, or the only one's value itself.
pub(super) fn values(spec: &ModelSpec, tensors: &[Documented<'_>], elements: Elements<'_>, with_batch: bool) -> Value {
    let one = |(tensor, document): &Documented<'_>| value(spec, tensor, document.as_deref(), elements, with_batch);
    let object = || by_name(spec, tensors, elements, with_batch);
    match tensors {
        [only] if elements.answered || only.0.document => one(only),
        [only] => json!({"anyOf": [one(only), object()]}),
        _ => object(),
    }
}

/// An object of one value of each tensor.
pub(super) fn by_name(spec: &ModelSpec, tensors: &[Documented<'_>], elements: Elements<'_>, with_batch: bool) -> Value {
    let one = |(tensor, document): &Documented<'_>| value(spec, tensor, document.as_deref(), elements, with_batch);
    let required = tensors.iter().filter(|(tensor, _)| !tensor.optional).map(|(tensor, _)| &*tensor.name);
    json!({
        "type": "object",
        "properties": tensors.iter().map(|entry| (entry.0.name.to_string(), one(entry))).collect::<Map<_, _>>(),
        "required": required.collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

fn value(
    spec: &ModelSpec,
    tensor: &TensorSpec,
    document: Option<&str>,
    elements: Elements<'_>,
    with_batch: bool,
) -> Value {
    let element = match (tensor.datatype, document) {
        (Datatype::Bytes, Some(key)) => reference("schemas", key),
        (Datatype::Bytes, None) if tensor.document => Value::Bool(true),
        (Datatype::Bytes, None) => reference("schemas", "V1Bytes"),
        (datatype, _) => tensor::element(datatype, elements),
    };
    let batch = with_batch.then_some(Axis { least: 0, most: max_rows(spec) });
    let own = tensor.dims.iter().map(|dim| Axis { least: dim.unwrap_or(0), most: *dim });
    let axes: Vec<Axis> = batch.into_iter().chain(own).collect();
    axes.iter().rev().fold(element, |inner, &axis| array(axis, inner))
}
