//! Any bytes as a generate request: refused, or a request whose tensors fit the model.
#![no_main]

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use penstock_core::{Kind, byte_size};
use penstock_wire::{Limits, rest::generate};
use penstock_wire_fuzz::{Declaration, within_budget};

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    declaration: Declaration,
    json: &'a [u8],
}

fuzz_target!(|case: Case<'_>| {
    within_budget(case.json.len(), || {
        let spec = case.declaration.spec();
        let _ = generate::is_infer(case.json);
        match generate::decode(&spec, case.json, &Limits::default()) {
            // A model that takes any tensors has none to fill.
            Err(error) if spec.raw_requests => assert_eq!(error.kind(), Kind::Unsupported, "{error:?}"),
            Err(error) => assert!(!error.message().is_empty() && error.kind() == Kind::InvalidInput, "{error:?}"),
            Ok(generate) => {
                let request = generate.decoded.request;
                for (index, tensor) in request.inputs.iter().enumerate() {
                    let Some(tensor) = tensor else { continue };
                    spec.check_input(index, tensor.datatype(), tensor.shape()).expect("a shape that the model takes");
                    if let Ok(Some(size)) = byte_size(tensor.datatype(), tensor.shape()) {
                        assert_eq!(tensor.as_slice().len(), size);
                    }
                }
                assert_eq!(request.metadata.is_some(), spec.wants_context);
            }
        }
    });
});
