//! JSON requests: no bytes cause a panic, and accepted requests return from their own JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_core::{Datatype, ModelSpec, ResponsePlan, Result, Tensor};
use penstock_wire::rest::{self, EncodeOptions};
use penstock_wire_fuzz::{
    Declaration, SHARING, answer, as_request, assert_well_formed, filled, same_tensors, tensors, within_budget,
};

fn decode(spec: &ModelSpec, json: &[u8]) -> Result<Vec<Tensor>> {
    let decoded = rest::begin(spec, json, 0, &SHARING)?.finish()?;
    Ok(tensors(&filled(spec, decoded)?.request))
}

fuzz_target!(|case: (Declaration, &[u8])| {
    within_budget(case.1.len(), || {
        let (declaration, json) = case;
        let spec = declaration.spec();
        let Ok(inputs) = decode(&spec, json) else { return };
        assert_well_formed(&inputs);

        let Some(response) = answer(&spec, &inputs) else { return };
        let encoded = match rest::encode(&spec, &ResponsePlan::default(), &response, &EncodeOptions::default()) {
            Ok(encoded) => encoded,
            Err(error) => {
                let bytes = inputs.iter().any(|tensor| tensor.datatype() == Datatype::Bytes);
                assert!(bytes, "only BYTES may have no JSON: {error}");
                return;
            }
        };
        let request = as_request(&encoded.chunks.concat());
        let again = decode(&spec, &request).unwrap_or_else(|error| panic!("{error}: {}", request.escape_ascii()));
        same_tensors(&inputs, &again);
    });
});
