//! V1 calls: no bytes cause a panic, and accepted calls return from their own JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::{InferResponse, ModelSpec, Result, Timings};
use penstock_wire::{
    Limits,
    rest::{
        EncodeOptions,
        v1::{self, Form, PredictRequest},
    },
};
use penstock_wire_fuzz::{Declaration, assert_well_formed, same_tensors, tensors, within_budget};

fn decode(spec: &ModelSpec, json: &[u8]) -> Result<PredictRequest> {
    v1::decode(spec, json, &Limits::default())
}

/// Encodes the call's own inputs as its response, with the key of a request.
fn echo(spec: &ModelSpec, call: &PredictRequest) -> Option<Vec<u8>> {
    let answers: Option<Vec<InferResponse>> = call
        .requests
        .iter()
        .map(|request| {
            let outputs = request.inputs.iter().cloned().collect::<Option<_>>()?;
            Some(InferResponse { outputs, parameters: Vec::new(), timings: Timings::default(), head: None })
        })
        .collect();
    let key = if call.form == Form::Inputs { "inputs" } else { "instances" };
    Some(v1::encode(spec, call.form, key, &answers?, &EncodeOptions::default()).unwrap())
}

fuzz_target!(|case: (Declaration, &[u8])| {
    within_budget(case.1.len(), || {
        let (declaration, json) = case;
        let spec = declaration.spec();
        let Ok(call) = decode(&spec, json) else { return };
        for request in &call.requests {
            assert_well_formed(&tensors(request));
        }
        let Some(body) = echo(&spec, &call) else { return };
        let again = decode(&spec, &body).unwrap_or_else(|error| panic!("{error}: {}", body.escape_ascii()));
        assert_eq!((call.form, call.requests.len()), (again.form, again.requests.len()));
        for (before, after) in call.requests.iter().zip(&again.requests) {
            same_tensors(&tensors(before), &tensors(after));
        }
    });
});
