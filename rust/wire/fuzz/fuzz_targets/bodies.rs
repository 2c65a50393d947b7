//! Bodies in array formats: accepted ones are well formed, and return from their own response.
#![no_main]

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use penstock_core::{Datatype, ModelSpec, ResponsePlan, Tensor};
use penstock_wire::{
    Limits,
    coding::InflateLimits,
    rest::bodies::{BodyLimits, Format, RequestOptions, check_response, decode, encode},
};
use penstock_wire_fuzz::{Declaration, answer, assert_well_formed, same_tensors, tensors, within_budget};

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    declaration: Declaration,
    format: u8,
    body: &'a [u8],
}

fuzz_target!(|case: Case<'_>| {
    within_budget(case.body.len(), || {
        let spec = case.declaration.spec();
        let format = Format::ALL[usize::from(case.format) % Format::ALL.len()];
        let Some(inputs) = decoded(format, &spec, case.body) else { return };
        assert_well_formed(&inputs);
        let plan = ResponsePlan::default();
        let Some(response) = answer(&spec, &inputs) else { return };
        if check_response(format, &spec, &plan).is_err() {
            return;
        }
        // Strings that numpy cannot hold, and rows that Arrow cannot, are refused with a reason.
        let Ok(encoded) = encode(format, &spec, &plan, &response) else { return };
        let body = encoded.concat();
        let body = match format {
            Format::Msgpack => {
                let at = body.windows(8).position(|window| window == b"\xA7outputs").expect("an answer has outputs");
                [b"\x81\xA6inputs", &body[at + 8..]].concat()
            }
            _ => body,
        };
        let again = decoded(format, &spec, &body).expect("its own answer");
        // Arrow's rows are the first axis, so a scalar comes back as such only where a scalar is expected.
        if inputs.iter().all(|input| input.datatype() != Datatype::Bytes || format != Format::Npy) {
            same_tensors(&inputs, &again);
        }
    });
});

fn decoded(format: Format, spec: &ModelSpec, body: &[u8]) -> Option<Vec<Tensor>> {
    let limits = BodyLimits { lists: Limits::default(), inflated: InflateLimits { bytes: 1 << 20, ratio: 100 } };
    let decoded = decode(format, spec, RequestOptions::default(), body.to_vec().into(), &limits).ok()?;
    Some(tensors(&decoded.request))
}
