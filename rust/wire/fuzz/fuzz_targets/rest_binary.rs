//! Requests with binary tensors: every header length, announced size and cut of the body.
#![no_main]

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use penstock_core::{Error, ModelSpec, ResponsePlan, Result, Tensor};
use penstock_wire::{
    Limits,
    rest::{self, EncodeOptions},
};
use penstock_wire_fuzz::{
    Declaration, answer, as_request, assert_well_formed, pieces, same_outcome, same_tensors, tensors, within_budget,
};

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    declaration: Declaration,
    form: Form,
    /// Sizes of the chunks in which the bytes after the JSON arrive.
    sizes: [u8; 4],
    /// Bytes at the end that never arrive.
    lost: u8,
    body: &'a [u8],
}

#[derive(Arbitrary, Debug)]
enum Form {
    /// The body is one tensor and nothing else.
    Raw,
    /// The body begins with that many bytes of JSON.
    Any { header_len: u16 },
    /// The body follows JSON that describes it, approximately.
    ModelSchemas { shape: [u8; 2], rank: u8, announced: u16, second: Option<u16> },
}

fuzz_target!(|case: Case<'_>| {
    within_budget(case.body.len(), || {
        let spec = case.declaration.spec();
        let (json, tail) = match &case.form {
            Form::Raw => (None, case.body),
            Form::Any { header_len } => {
                let Some((json, tail)) = case.body.split_at_checked(usize::from(*header_len)) else { return };
                (Some(json.to_vec()), tail)
            }
            Form::ModelSchemas { shape, rank, announced, second } => {
                (Some(described(&spec, &shape[..usize::from(*rank % 3)], *announced, *second)), case.body)
            }
        };
        let arrived = &tail[..tail.len().saturating_sub(usize::from(case.lost % 4))];
        let whole = decode(&spec, json.as_deref(), tail.len(), [arrived].into_iter());
        let parts = decode(&spec, json.as_deref(), tail.len(), pieces(arrived, &case.sizes));
        same_outcome(&whole, &parts);
        let Ok(inputs) = whole else { return };
        assert_eq!(arrived.len(), tail.len(), "a body that was cut short is refused");
        assert_well_formed(&inputs);
        comes_back(&spec, &inputs);
    });
});

/// Accepted requests return from their own binary response.
fn comes_back(spec: &ModelSpec, inputs: &[Tensor]) {
    let Some(response) = answer(spec, inputs) else { return };
    let plan = ResponsePlan { binary: true, ..ResponsePlan::default() };
    let encoded = rest::encode(spec, &plan, &response, &EncodeOptions::default()).expect("binary has a form for all");
    let body = encoded.chunks.concat();
    let (json, tail) = body.split_at(encoded.json_len.unwrap_or(body.len()));
    let again = decode(spec, Some(&as_request(json)), tail.len(), [tail].into_iter()).expect("its own answer");
    same_tensors(inputs, &again);
}

fn decode<'a>(
    spec: &ModelSpec,
    json: Option<&[u8]>,
    tail_len: usize,
    tail: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<Tensor>> {
    let mut decoder = match json {
        None => rest::begin_raw(spec, tail_len)?,
        Some(json) => rest::begin(spec, json, tail_len, &Limits::default())?,
    };
    for piece in tail {
        decoder.write(piece)?;
    }
    let decoded = decoder.finish()?;
    Ok::<_, Error>(tensors(&decoded.request))
}

fn described(spec: &ModelSpec, shape: &[u8], announced: u16, second: Option<u16>) -> Vec<u8> {
    let sizes = [Some(announced), second];
    let inputs: Vec<String> = spec
        .inputs
        .iter()
        .zip(sizes)
        .filter_map(|(input, size)| {
            let (name, datatype, size) = (&input.name, input.datatype.name(), size?);
            Some(format!(
                r#"{{"name":"{name}","datatype":"{datatype}","shape":{shape:?},"parameters":{{"binary_data_size":{size}}}}}"#
            ))
        })
        .collect();
    format!(r#"{{"inputs":[{}]}}"#, inputs.join(",")).into_bytes()
}
