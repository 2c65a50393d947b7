//! A model's part of a document: schemas and operations.

use super::{
    example, formats, generate, infer_schemas,
    names::{Keys, rebase, reference},
    plain, raw_model, responses,
    routes::{Route, Takes},
    site::{ServedModel, ServerDescription, max_rows},
    tensor::Documented,
    v1,
};
use penstock_core::TensorSpec;
use serde_json::{Map, Value, json};

/// The end of an explainer's name; before it is the name of the model that it explains.
const EXPLAINER: &str = ":explain";

/// A model whose schemas are among the components.
#[derive(Debug)]
pub(super) struct ModelSchemas<'a> {
    pub(super) served: ServedModel<'a>,
    key: String,
    inputs: Vec<Documented<'a>>,
    outputs: Vec<Documented<'a>>,
}

/// Adds a model's schemas.
pub(super) fn describe<'a>(
    served: ServedModel<'a>,
    site: &ServerDescription<'_>,
    keys: &mut Keys,
    schemas: &mut Map<String, Value>,
) -> ModelSchemas<'a> {
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
        schemas.insert(format!("{key}.Request"), raw_model::request(spec));
        schemas.insert(format!("{key}.Answer"), raw_model::answer(spec));
        return ModelSchemas { served, key, inputs, outputs };
    }
    if !explains {
        schemas.insert(format!("{key}.Request"), infer_schemas::request(spec, &inputs));
        schemas.insert(format!("{key}.Answer"), infer_schemas::response(spec, &outputs, site.strict_json));
    }
    if !explains {
        formats::add_schemas(spec, &key, schemas);
        schemas.insert(format!("{key}.PlainRequest"), plain::request(spec, &inputs));
        schemas.insert(format!("{key}.PlainAnswer"), plain::answer(spec, &outputs, site.strict_json));
        schemas.insert(format!("{key}.FlatRequest"), generate::request(spec, &inputs));
        schemas.insert(format!("{key}.FlatAnswer"), generate::answer(spec, &outputs, site.strict_json));
    }
    schemas.insert(format!("{key}.V1Request"), v1::request(spec, &inputs));
    schemas.insert(format!("{key}.V1Answer"), v1::answer(spec, &outputs, explains, site.strict_json));
    ModelSchemas { served, key, inputs, outputs }
}

impl ModelSchemas<'_> {
    /// Prefix of its components' names.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The name in its paths.
    pub(super) fn name(&self) -> &str {
        let name = &self.served.spec.name;
        name.strip_suffix(EXPLAINER).unwrap_or(name)
    }

    /// Returns whether the model serves a route: an explainer serves explanations only, a streaming model no unary
    /// route.
    pub(super) fn serves(&self, route: &Route) -> bool {
        let explains = route.takes == Takes::Explain;
        let gives_one = matches!(route.takes, Takes::Inference | Takes::Predict);
        let spec = self.served.spec;
        if spec.raw_requests && !matches!(route.takes, Takes::Inference | Takes::InferStream) {
            return false;
        }
        spec.name.ends_with(EXPLAINER) == explains && !(gives_one && spec.streams)
    }

    /// The operation of this model on a route.
    pub(super) fn operation(&self, route: &Route, site: &ServerDescription<'_>) -> Value {
        let spec = self.served.spec;
        let is_v2 = matches!(route.takes, Takes::Inference | Takes::InferStream);
        let streams = matches!(route.takes, Takes::InferStream | Takes::GenerateStream)
            || (route.takes == Takes::Plain && spec.streams);
        let (example, form) = match route.takes {
            // A raw-request model interprets its tensors itself.
            Takes::Inference | Takes::InferStream if spec.raw_requests => (None, ""),
            Takes::Inference | Takes::InferStream => (example::request(spec), ""),
            Takes::Plain => (plain::request_example(spec), "Plain"),
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
        if route.takes == Takes::Plain {
            plain::add_files(spec, &mut request);
            plain::add_answers(spec, &mut content);
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
            for (name, key) in responses::TIMING_HEADERS {
                headers[*name] = reference("headers", key);
            }
        }
        let mut responses =
            json!({"200": {"description": "The model's answer.", "headers": headers, "content": content}});
        for status in responses::inference_statuses(site) {
            responses[status.to_string()] = responses::refusal(status);
        }
        let mut operation = json!({
            "operationId": format!("{}_{}", route.id, self.key),
            "tags": [route.tag.name()],
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

    /// Summary of the model for the page at /docs.
    fn summary(&self, streams: bool) -> Value {
        let spec = self.served.spec;
        let tensor = |(tensor, schema): &Documented<'_>| {
            let document = tensor.described.as_ref();
            json!({
                "name": &*tensor.name,
                "datatype": tensor.datatype.name(),
                "shape": tensor.wire_shape(spec.has_batch_axis()),
                "optional": tensor.optional,
                "media_type": tensor.media_type.as_deref(),
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
/// Not a parameter of the operation: with a JSON body, the header would deny that there is JSON.
const BINARY_REQUEST: &str = "The request's JSON, then the data of its inputs in order. The header \
    Inference-Header-Content-Length says how many bytes the JSON has; 0 is a body that is the only input's data.";

fn raw(text: &str) -> Value {
    json!({"schema": {"description": text}})
}
