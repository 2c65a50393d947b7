//! The golden vectors of `tests/vectors`: each request is decoded and compared, and its response encoded.

mod golden;

use golden::{ClientResponse, Model, Refusal, Tensor, Vector, Wire, WireKind};
use penstock_core::{Buffer, Error, InferResponse, ModelSpec, Parameters, Tensor as CoreTensor, aligned_with_capacity};
use penstock_wire::{
    DecodedRequest, Limits,
    grpc::{self, MessageDecoder},
    rest::{self, EncodeOptions},
};
use serde_json::{Map, Value};

/// Cuts of a body or message into chunks, as a network makes them.
const CHUNK_SIZES: [usize; 3] = [1, 7, usize::MAX];

#[test]
fn every_golden_request_decodes_as_expected() {
    let models = golden::models();
    for vector in golden::vectors() {
        let Some(expected) = &vector.request else { continue };
        for (spec, wire, label) in encodings(&models, &vector) {
            for chunk_size in CHUNK_SIZES {
                let decoded = decode(&spec, wire, chunk_size).unwrap_or_else(|error| panic!("{label}: {error}"));
                assert_eq!(decoded.plan.id, expected.id, "{label}");
                let inputs: Vec<Tensor> = spec
                    .inputs
                    .iter()
                    .zip(&decoded.request.inputs)
                    .filter_map(|(declared, input)| Some(Tensor::of(&declared.name, input.as_ref()?)))
                    .collect();
                assert_eq!(inputs, expected.inputs, "{label}");
                assert_eq!(
                    requested(&spec, &decoded),
                    expected.outputs.clone().unwrap_or_else(|| names(&spec)),
                    "{label}"
                );
                if let Some(metadata) = &decoded.request.metadata {
                    assert_eq!(metadata.id, expected.id, "{label}");
                    assert_eq!(
                        sorted(metadata.parameters.clone()),
                        sorted(golden::parameters(&expected.parameters)),
                        "{label}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_invalid_golden_request_is_refused_as_expected() {
    let models = golden::models();
    for vector in golden::vectors() {
        let Some(expected) = &vector.refusal else { continue };
        for (spec, wire, label) in encodings(&models, &vector) {
            for chunk_size in CHUNK_SIZES {
                let Err(error) = decode(&spec, wire, chunk_size) else { panic!("{label}: it was decoded") };
                check_refusal(&error, expected, &label);
            }
        }
    }
}

#[test]
fn every_golden_response_is_encoded_as_requested() {
    let models = golden::models();
    for vector in golden::vectors() {
        let Some(answer) = &vector.answer else { continue };
        for (spec, wire, label) in encodings(&models, &vector) {
            let plan = decode(&spec, wire, usize::MAX).unwrap_or_else(|error| panic!("{label}: {error}")).plan;
            let response = response(&spec, &answer.outputs, &answer.parameters);
            if wire.wire == WireKind::Grpc {
                let chunks = grpc::encode(&spec, &plan, &response).unwrap_or_else(|error| panic!("{label}: {error}"));
                assert_eq!(golden::hex(&chunks.concat()), answer.grpc, "{label}");
                continue;
            }
            let encoded = rest::encode(&spec, &plan, &response, &EncodeOptions::default());
            let encoded = encoded.unwrap_or_else(|error| panic!("{label}: {error}"));
            let body = encoded.chunks.concat();
            let (json, tail) = body.split_at(encoded.json_len.unwrap_or(body.len()));
            assert_eq!(encoded.json_len.is_some(), !tail.is_empty(), "{label}: the length is given with a tail only");
            check_rest_response(json, tail, &vector, answer, wire.wire == WireKind::RestBinary, &label);
        }
    }
}

#[test]
fn golden_vectors_cover_every_wire_format() {
    let vectors = golden::vectors();
    for kind in [WireKind::RestJson, WireKind::RestBinary, WireKind::Grpc] {
        let served = |vector: &Vector| vector.answer.is_some() && vector.wires.iter().any(|wire| wire.wire == kind);
        assert!(vectors.iter().filter(|vector| served(vector)).count() > 10, "{kind:?}");
        let refused = |vector: &Vector| vector.refusal.is_some() && vector.wires.iter().any(|wire| wire.wire == kind);
        assert!(vectors.iter().filter(|vector| refused(vector)).count() > 10, "{kind:?}");
    }
    assert!(vectors.iter().all(|vector| vector.request.is_some() == vector.answer.is_some()));
    assert!(vectors.iter().all(|vector| vector.request.is_some() != vector.refusal.is_some()));
    assert!(vectors.iter().all(|vector| !vector.wires.is_empty()));
}

/// Each encoding of a vector, with its model and its name in a failure.
fn encodings<'v>(models: &[Model], vector: &'v Vector) -> Vec<(ModelSpec, &'v Wire, String)> {
    let model = models.iter().find(|model| model.name == vector.model);
    let spec = model.unwrap_or_else(|| panic!("{}: unknown model '{}'", vector.name, vector.model)).spec();
    let label = |wire: &Wire| format!("{} ({:?} {})", vector.name, wire.wire, wire.note);
    vector.wires.iter().map(|wire| (spec.clone(), wire, label(wire))).collect()
}

fn decode(spec: &ModelSpec, wire: &Wire, chunk_size: usize) -> Result<DecodedRequest, Error> {
    let limits = Limits::default();
    if wire.wire == WireKind::Grpc {
        let message = wire.message();
        let mut decoder = MessageDecoder::new(message.len(), &limits);
        message.chunks(chunk_size).try_for_each(|chunk| decoder.push(chunk))?;
        return grpc::decode(spec, decoder.finish()?, &limits);
    }
    let (json, tail) = (wire.json(), wire.tail());
    let mut decoder = match wire.json_length {
        Some(0) => rest::begin_raw(spec, tail.len())?,
        length => {
            assert_eq!(length.unwrap_or(json.len()), json.len(), "the vector's own length is wrong");
            rest::begin(spec, &json, tail.len(), &limits)?
        }
    };
    tail.chunks(chunk_size).try_for_each(|chunk| decoder.write(chunk))?;
    decoder.finish()
}

fn check_refusal(error: &Error, expected: &Refusal, label: &str) {
    assert_eq!(error.kind().name(), expected.kind, "{label}: {error}");
    assert_eq!(rest::error::status(error.kind()), expected.status, "{label}");
    assert_eq!(grpc::error::code(error.kind()), expected.code, "{label}");
    assert!(!error.message().is_empty(), "{label}");
    for part in &expected.message {
        assert!(error.message().contains(part), "{label}: {part:?} is not in {:?}", error.message());
    }
}

fn names(spec: &ModelSpec) -> Vec<String> {
    spec.outputs.iter().map(|output| output.name.to_string()).collect()
}

fn requested(spec: &ModelSpec, decoded: &DecodedRequest) -> Vec<String> {
    match &decoded.plan.outputs {
        None => names(spec),
        Some(outputs) => outputs.iter().map(|output| spec.outputs[output.index].name.to_string()).collect(),
    }
}

fn sorted(mut parameters: Parameters) -> Parameters {
    parameters.sort_by(|a, b| a.0.cmp(&b.0));
    parameters
}

/// The model's response. Outputs that are not requested have no elements.
fn response(spec: &ModelSpec, outputs: &[Tensor], parameters: &Map<String, Value>) -> InferResponse {
    let made = spec.outputs.iter().map(|declared| {
        let found = outputs.iter().find(|output| output.name == *declared.name);
        let (shape, raw) = found.map_or((vec![0], Vec::new()), |output| (output.shape.clone(), output.raw()));
        let mut buffer = aligned_with_capacity(raw.len());
        buffer.extend_from_slice(&raw);
        CoreTensor::new(declared.datatype, shape.into(), Buffer::Aligned(buffer)).expect("the vector's tensor")
    });
    InferResponse {
        outputs: made.collect(),
        parameters: golden::parameters(parameters),
        timings: penstock_core::Timings::default(),
        head: None,
    }
}

fn check_rest_response(
    json: &[u8],
    mut tail: &[u8],
    vector: &Vector,
    answer: &ClientResponse,
    binary: bool,
    label: &str,
) {
    let text = std::str::from_utf8(json).unwrap_or_else(|_| panic!("{label}: the JSON is not UTF-8"));
    // The names of no number are not JSON; their bits are compared below.
    let document: Value = serde_json::from_str(&golden::without_non_finite_words(text))
        .unwrap_or_else(|error| panic!("{label}: {error}: {text}"));
    let id = &vector.request.as_ref().expect("a response vector needs a request").id;
    assert_eq!(document["model_name"], *vector.model, "{label}");
    assert_eq!(document["model_version"], "1", "{label}");
    assert_eq!(document.get("id").and_then(Value::as_str).unwrap_or_default(), id, "{label}");
    let parameters = document.get("parameters").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    assert_eq!(parameters, Value::Object(answer.parameters.clone()), "{label}");
    let outputs = document["outputs"].as_array().unwrap_or_else(|| panic!("{label}: no outputs"));
    assert_eq!(outputs.len(), answer.outputs.len(), "{label}");
    let mut texts = golden::data_texts(text);
    for (output, expected) in outputs.iter().zip(&answer.outputs) {
        let raw = expected.raw();
        assert_eq!(output["name"], *expected.name, "{label}");
        assert_eq!(output["datatype"], *expected.datatype, "{label}");
        assert_eq!(output["shape"], serde_json::json!(expected.shape), "{label}");
        if binary {
            assert_eq!(output["parameters"], serde_json::json!({ "binary_data_size": raw.len() }), "{label}");
            let (own, rest) = tail.split_at(raw.len());
            assert_eq!(own, raw, "{label}");
            tail = rest;
        } else {
            let data = texts.next().unwrap_or_else(|| panic!("{label}: no data in {text}"));
            let found = golden::pack(&expected.datatype, data, &output["data"]);
            assert_eq!(golden::hex(&found), expected.hex, "{label}: {data}");
        }
    }
    assert!(tail.is_empty(), "{label}: bytes after the last output");
}
