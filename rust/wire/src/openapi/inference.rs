//! A model's own part of a document: the schemas of its request and answer, and its operation.

use super::{
    answers, example, formats, generate,
    names::{Keys, rebase, reference},
    open, outputs,
    routes::{Route, Takes},
    site::{Served, Site, max_rows},
    tensor::{self, Elements},
    v1,
};
use penstock_core::{ModelSpec, TensorSpec, classify};
use serde_json::{Map, Value, json};

/// The end of an explainer's name; before it is the name of the model that it explains.
const EXPLAINER: &str = ":explain";

/// A model whose schemas are among the components.
#[derive(Debug)]
pub(super) struct Described<'a> {
    pub(super) served: Served<'a>,
    key: String,
    inputs: Vec<Documented<'a>>,
    outputs: Vec<Documented<'a>>,
}

/// Adds a model's schemas.
pub(super) fn describe<'a>(
    served: Served<'a>,
    site: &Site<'_>,
    keys: &mut Keys,
    schemas: &mut Map<String, Value>,
) -> Described<'a> {
    let spec = served.spec;
    let key = keys.take(&format!("{}.{}", spec.name, spec.version));
    let mut documents = |tensor: &TensorSpec, role: &str| {
        let document = tensor.described.as_ref()?;
        let mut schema: Value = serde_json::from_str(&document.schema).ok()?;
        let own = keys.take(&format!("{key}.{role}.{}", tensor.name));
        rebase(&mut schema, &own);
        schemas.insert(own.clone(), schema);
        Some(own)
    };
    let inputs: Vec<_> = spec.inputs.iter().map(|input| (input, documents(input, "input"))).collect();
    let outputs: Vec<_> = spec.outputs.iter().map(|output| (output, documents(output, "output"))).collect();
    let explains = spec.name.ends_with(EXPLAINER);
    if spec.raw_requests {
        schemas.insert(format!("{key}.Request"), open::request(spec));
        schemas.insert(format!("{key}.Answer"), open::answer(spec));
        return Described { served, key, inputs, outputs };
    }
    if !explains {
        schemas.insert(format!("{key}.Request"), request(spec, &inputs));
        schemas.insert(format!("{key}.Answer"), outputs::answer(spec, &outputs, site.strict_json));
    }
    if !explains {
        formats::add_schemas(spec, &key, schemas);
        schemas.insert(format!("{key}.FlatRequest"), generate::request(spec, &inputs));
        schemas.insert(format!("{key}.FlatAnswer"), generate::answer(spec, &outputs, site.strict_json));
    }
    schemas.insert(format!("{key}.V1Request"), v1::request(spec, &inputs));
    schemas.insert(format!("{key}.V1Answer"), v1::answer(spec, &outputs, explains, site.strict_json));
    Described { served, key, inputs, outputs }
}

/// A tensor, and the component that describes its documents.
pub(super) type Documented<'a> = (&'a TensorSpec, Option<String>);

fn request(spec: &ModelSpec, inputs: &[Documented<'_>]) -> Value {
    let items: Vec<Value> = inputs.iter().map(|(tensor, document)| input(spec, tensor, document.as_deref())).collect();
    let required = spec.inputs.iter().filter(|input| !input.optional).count();
    let mut listed = json!({"type": "array", "minItems": required, "maxItems": items.len()});
    // With one input the bounds say all; else each is there once, in whatever order.
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

/// The outputs that a request may ask for; none, or no list, is all.
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

pub(super) fn one_of(mut schemas: Vec<Value>) -> Value {
    match schemas.len() {
        0 => Value::Bool(false),
        1 => schemas.swap_remove(0),
        _ => json!({"oneOf": schemas}),
    }
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

impl Described<'_> {
    /// What its components' names begin with.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The name that it is asked by.
    pub(super) fn name(&self) -> &str {
        let name = &self.served.spec.name;
        name.strip_suffix(EXPLAINER).unwrap_or(name)
    }

    /// Whether a route asks it: an explainer is asked for explanations only, one that streams not for one answer.
    pub(super) fn is_asked(&self, route: &Route) -> bool {
        let explains = route.takes == Takes::Explain;
        let gives_one = matches!(route.takes, Takes::Inference | Takes::Predict);
        let spec = self.served.spec;
        if spec.raw_requests && !matches!(route.takes, Takes::Inference | Takes::InferStream) {
            return false;
        }
        spec.name.ends_with(EXPLAINER) == explains && !(gives_one && spec.streams)
    }

    /// The operation that asks this model on a route.
    pub(super) fn operation(&self, route: &Route, site: &Site<'_>) -> Value {
        let spec = self.served.spec;
        let is_v2 = matches!(route.takes, Takes::Inference | Takes::InferStream);
        let streams = matches!(route.takes, Takes::InferStream | Takes::GenerateStream);
        let (example, form) = match route.takes {
            // What an open model makes of tensors, it alone knows.
            Takes::Inference | Takes::InferStream if spec.raw_requests => (None, ""),
            Takes::Inference | Takes::InferStream => (example::request(spec), ""),
            Takes::Generate | Takes::GenerateStream => (generate::request_example(spec), "Flat"),
            Takes::Predict | Takes::Explain | Takes::Nothing | Takes::Json(_) => (v1::request_example(spec), "V1"),
        };
        let schema = |part: &str| reference("schemas", &format!("{}.{form}{part}", self.key));
        let mut request = json!({"application/json": {"schema": schema("Request")}});
        if let Some(example) = example {
            let example = json!({"summary": "A request that can be sent", "value": example});
            request["application/json"]["examples"] = json!({"request": example});
        }
        let mut content = json!({"application/json": {"schema": schema("Answer")}});
        if streams {
            content = json!({"text/event-stream": generate::events(&format!("{}.{form}Answer", self.key))});
        }
        let mut headers = json!({});
        if is_v2 {
            request[BINARY] = raw(BINARY_REQUEST);
        }
        if route.takes == Takes::Inference && spec.raw_requests {
            headers["Inference-Header-Content-Length"] = reference("headers", "JsonLength");
            content[BINARY] = raw(BINARY_ANSWER);
        } else if route.takes == Takes::Inference {
            headers["Inference-Header-Content-Length"] = reference("headers", "JsonLength");
            content[BINARY] = raw(BINARY_ANSWER);
            formats::add_requests(spec, &self.key, &mut request);
            formats::add_answers(spec, &self.key, &mut content);
        }
        if site.timing_headers {
            for (name, key) in super::document::TIMING_HEADERS {
                headers[*name] = reference("headers", key);
            }
        }
        let mut responses =
            json!({"200": {"description": "The model's answer.", "headers": headers, "content": content}});
        for status in answers::of_inference(site) {
            responses[status.to_string()] = answers::refusal(status);
        }
        let mut operation = json!({
            "operationId": format!("{}_{}", route.id, self.key),
            "tags": [route.tag],
            "summary": format!("{} by {}", route.summary, self.title(route)),
            "description": &*spec.description,
            "requestBody": {"required": true, "content": request},
            "responses": responses,
        });
        if is_v2 {
            operation["x-penstock"] = self.summary(streams);
        }
        operation
    }

    fn title(&self, route: &Route) -> String {
        let name = self.name();
        if route.has_version() { format!("{name} version {}", self.served.spec.version) } else { name.to_owned() }
    }

    /// What the page at /docs shows of the model.
    fn summary(&self, streams: bool) -> Value {
        let spec = self.served.spec;
        let tensor = |(tensor, schema): &Documented<'_>| {
            let document = tensor.described.as_ref();
            json!({
                "name": &*tensor.name,
                "datatype": tensor.datatype.name(),
                "shape": tensor.wire_shape(spec.has_batch_axis()),
                "optional": tensor.optional,
                "schema": schema,
                "example": document.and_then(|document| document.example.as_deref()),
                "example_shape": example::shape(tensor, max_rows(spec)),
            })
        };
        json!({
            "model": &*spec.name,
            "version": &*spec.version,
            "is_default": self.served.is_default,
            "description": &*spec.description,
            "max_rows": max_rows(spec),
            "streams": streams,
            "sequences": spec.sequences.is_some(),
            "open": spec.raw_requests,
            "routes": spec.routes.iter().map(|route| &**route.text()).collect::<Vec<_>>(),
            "inputs": self.inputs.iter().map(tensor).collect::<Vec<_>>(),
            "outputs": self.outputs.iter().map(tensor).collect::<Vec<_>>(),
        })
    }
}

const BINARY: &str = "application/octet-stream";
const BINARY_ANSWER: &str = "The answer's JSON, then the data of its binary outputs in order.";
/// No parameter of the operation: beside a body of JSON, the header would say that there is none.
const BINARY_REQUEST: &str = "The request's JSON, then the data of its inputs in order. The header \
    Inference-Header-Content-Length says how many bytes the JSON has; 0 is a body that is the only input's data.";

fn raw(text: &str) -> Value {
    json!({"schema": {"description": text}})
}
