//! Schemas of generate: one flat JSON object each way.

use super::{
    example,
    names::reference,
    tensor::{self, Documented, Elements},
};
use penstock_core::{ModelSpec, TensorSpec};
use serde_json::{Map, Value, json};

/// The body of `generate` and `generate_stream`: a member for each input, other members are parameters.
pub(super) fn request(spec: &ModelSpec, inputs: &[Documented<'_>]) -> Value {
    let mut properties: Map<String, Value> = members(inputs, Elements::default());
    for (name, schema) in [
        ("id", json!({"type": "string", "description": "Comes back with every answer."})),
        (
            "details",
            json!({"type": "boolean", "description": "Whether parameters come back in an object of their own."}),
        ),
        ("parameters", json!({"type": "object", "description": "Inputs and parameters may stand here too."})),
    ] {
        properties.entry(name).or_insert(schema);
    }
    let required: Vec<&str> = spec.inputs.iter().filter(|input| !input.optional).map(|input| &*input.name).collect();
    json!({
        "type": "object",
        "title": format!("Generate request of {}", spec.name),
        "properties": properties,
        "anyOf": [{"required": required}, {"required": ["parameters"]}],
    })
}

/// Schema of the response, and of each event of a stream: a member for each output.
pub(super) fn answer(spec: &ModelSpec, outputs: &[Documented<'_>], nullable: bool) -> Value {
    let elements = Elements { answered: true, nullable, ..Elements::default() };
    let mut properties = members(outputs, elements);
    properties.entry("model_name").or_insert(json!({"const": &*spec.name}));
    properties.entry("model_version").or_insert(json!({"const": &*spec.version}));
    json!({
        "type": "object",
        "title": format!("Generate answer of {}", spec.name),
        "required": ["model_name", "model_version"],
        "properties": properties,
    })
}

/// Example request; `None` if it is too long or has documents without an example.
pub(super) fn request_example(spec: &ModelSpec) -> Option<Value> {
    let value = |input: &TensorSpec| {
        let element = example::element(input)?;
        let count = example::shape(input, spec.batching.as_ref().map(|_| 1)).iter().product();
        Some((input.name.to_string(), if count == 1 { element } else { vec![element; count].into() }))
    };
    let members = example::sent(spec)?.into_iter().map(value).collect::<Option<Map<_, _>>>()?;
    Some(example::with_sequence(spec, members.into()))
}

fn members(tensors: &[Documented<'_>], elements: Elements<'_>) -> Map<String, Value> {
    let member = |(tensor, document): &Documented<'_>| {
        if tensor.document {
            return (tensor.name.to_string(), documents(document.as_deref(), elements));
        }
        let element = tensor::element(tensor.datatype, Elements { document: document.as_deref(), ..elements });
        let several = json!({"type": "array", "items": element});
        (tensor.name.to_string(), json!({"anyOf": [element, several]}))
    };
    tensors.iter().map(member).collect()
}

/// A member of JSON documents: the document, or a list of one for each row. In a request it may be text, too.
fn documents(document: Option<&str>, elements: Elements<'_>) -> Value {
    let one = document.map_or(Value::Bool(true), |key| reference("schemas", key));
    let several = json!({"type": "array", "items": one});
    match elements.answered {
        true => json!({"anyOf": [one, several]}),
        false => json!({"anyOf": [one, several, {"type": "string", "contentMediaType": "application/json"}]}),
    }
}

/// Description of an event stream.
pub(super) fn events(schema: &str) -> Value {
    json!({
        "schema": {"description": "Each event is `data: `, one line of JSON, and an empty line."},
        "x-event-data": reference("schemas", schema),
    })
}
