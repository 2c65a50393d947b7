//! The golden bodies of `tests/vectors/formats`: each is decoded and compared, and its response read as the library's.

use super::{
    files::{Model, Refusal, Request, Tensor, folder, models},
    values::{parameters, unhex},
};
use crate::{check_refusal, names, requested, response, sorted};
use penstock_core::{Datatype, Error, ModelSpec, TensorSpec};
use penstock_wire::{
    DecodedRequest, Limits,
    coding::InflateLimits,
    rest::bodies::{self, BodyLimits, Format, RequestOptions},
};
use serde::Deserialize;
use serde_json::Map;
use std::fs;

const LIMITS: BodyLimits =
    BodyLimits { lists: Limits::DEFAULT, inflated: InflateLimits { bytes: 1 << 20, ratio: 100 } };

#[derive(Deserialize)]
struct File {
    format: String,
    vectors: Vec<Body>,
}

#[derive(Deserialize)]
struct Body {
    name: String,
    model: String,
    #[serde(default)]
    query: Vec<(String, String)>,
    body: String,
    request: Option<Request>,
    answer: Option<ClientResponse>,
    refusal: Option<Refusal>,
}

#[derive(Deserialize)]
struct ClientResponse {
    outputs: Vec<Tensor>,
    body: String,
}

/// Every vector with its format, its model, and its name in a failure.
fn for_each_vector(check: impl Fn(Format, &ModelSpec, &Body, &str)) {
    let models = models();
    for format in Format::ALL {
        let name = format.name().split(' ').next().unwrap_or_default().to_lowercase();
        let path = folder().join("formats").join(format!("{name}.json"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file: File = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(file.format, name);
        assert!(file.vectors.iter().filter(|vector| vector.answer.is_some()).count() > 25, "{name}");
        assert!(file.vectors.iter().filter(|vector| vector.refusal.is_some()).count() > 4, "{name}");
        for vector in &file.vectors {
            check(format, &spec(&models, &vector.model), vector, &format!("{name}: {}", vector.name));
        }
    }
}

fn spec(models: &[Model], name: &str) -> ModelSpec {
    models.iter().find(|model| model.name == name).unwrap_or_else(|| panic!("unknown model '{name}'")).spec()
}

fn decode(format: Format, spec: &ModelSpec, vector: &Body) -> Result<DecodedRequest, Error> {
    let query = vector.query.iter().map(|(name, value)| (&**name, &**value));
    bodies::decode(format, spec, RequestOptions::from_query(spec, query)?, unhex(&vector.body).into(), &LIMITS)
}

fn inputs(spec: &ModelSpec, decoded: &DecodedRequest) -> Vec<Tensor> {
    let pairs = spec.inputs.iter().zip(&decoded.request.inputs);
    pairs.filter_map(|(declared, input)| Some(Tensor::of(&declared.name, input.as_ref()?))).collect()
}

#[test]
fn every_golden_body_decodes_as_expected() {
    for_each_vector(|format, spec, vector, label| {
        let Some(expected) = &vector.request else { return };
        let decoded = decode(format, spec, vector).unwrap_or_else(|error| panic!("{label}: {error}"));
        assert_eq!(inputs(spec, &decoded), expected.inputs, "{label}");
        assert_eq!(decoded.plan.id, expected.id, "{label}");
        let outputs = expected.outputs.clone().unwrap_or_else(|| names(spec));
        assert_eq!(requested(spec, &decoded), outputs, "{label}");
        if let Some(metadata) = decoded.request.metadata {
            let given = parameters(&expected.parameters);
            assert_eq!(sorted(metadata.parameters), sorted(given), "{label}");
        }
    });
}

#[test]
fn every_invalid_golden_body_is_refused_as_expected() {
    for_each_vector(|format, spec, vector, label| {
        let Some(expected) = &vector.refusal else { return };
        let Err(error) = decode(format, spec, vector) else { panic!("{label}: it was decoded") };
        check_refusal(&error, expected, label);
    });
}

#[test]
fn encoded_responses_decode_as_those_of_the_library() {
    for_each_vector(|format, spec, vector, label| {
        let Some(answer) = &vector.answer else { return };
        let plan = decode(format, spec, vector).unwrap_or_else(|error| panic!("{label}: {error}")).plan;
        let encoded = bodies::encode(format, spec, &plan, &response(spec, &answer.outputs, &Map::new()));
        let encoded = encoded.unwrap_or_else(|error| panic!("{label}: {error}")).concat();
        for (body, origin) in [(encoded, "ours"), (unhex(&answer.body), "the library's")] {
            assert_eq!(read(format, &answer.outputs, body, label), answer.outputs, "{label}: {origin}");
        }
    });
}

/// Decodes a response as a request with the expected tensors.
fn read(format: Format, expected: &[Tensor], body: Vec<u8>, label: &str) -> Vec<Tensor> {
    let declared = |tensor: &Tensor| {
        let dims = tensor.shape.iter().map(|&size| Some(size)).collect();
        TensorSpec::new(&tensor.name, Datatype::from_name(&tensor.datatype).expect("a datatype"), dims)
    };
    let spec = ModelSpec { inputs: expected.iter().map(declared).collect(), ..ModelSpec::default() };
    let body = match format {
        Format::Msgpack => {
            let at = body.windows(8).position(|window| window == b"\xA7outputs").expect("no outputs in the body");
            [b"\x81\xA6inputs", &body[at + 8..]].concat()
        }
        _ => body,
    };
    let decoded = bodies::decode(format, &spec, RequestOptions::default(), body.into(), &LIMITS);
    inputs(&spec, &decoded.unwrap_or_else(|error| panic!("{label}: {error}")))
}
