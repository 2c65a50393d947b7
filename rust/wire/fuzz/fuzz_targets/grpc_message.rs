//! gRPC messages: any bytes in any chunks, compared with the generated decoder, and back.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use penstock_core::{ModelSpec, ResponsePlan, Result, Tensor};
use penstock_wire::{
    Limits,
    generated::inference::{ModelInferRequest, ModelInferResponse, model_infer_request::InferInputTensor},
    grpc::{self, Envelope, MessageDecoder},
};
use penstock_wire_fuzz::{
    Declaration, SHARING, answer, assert_well_formed, filled, pieces, same_outcome, same_tensors, tensors,
    within_budget,
};
use prost::Message;

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    declaration: Declaration,
    sizes: [u8; 4],
    message: &'a [u8],
}

fuzz_target!(|case: Case<'_>| {
    within_budget(case.message.len(), || {
        let spec = case.declaration.spec();
        let whole = assembled(case.message, [case.message].into_iter());
        let parts = assembled(case.message, pieces(case.message, &case.sizes));
        assert_eq!(whole.is_ok(), parts.is_ok(), "{whole:?} {parts:?}");
        let (Ok(whole), Ok(parts)) = (whole, parts) else { return };
        // As bytes, because a NaN in a parameter is not equal to itself.
        assert_eq!(whole.message.encode_to_vec(), parts.message.encode_to_vec());

        let outcome = decode(&spec, whole);
        same_outcome(&outcome, &decode(&spec, parts));
        if let Ok(message) = ModelInferRequest::decode(case.message) {
            let again = message.encode_to_vec();
            same_outcome(&outcome, &decode(&spec, assembled(&again, [&*again].into_iter()).expect("a message")));
        }
        let Ok(inputs) = outcome else { return };
        assert_well_formed(&inputs);
        comes_back(&spec, &inputs);
    });
});

fn assembled<'a>(message: &[u8], pieces: impl Iterator<Item = &'a [u8]>) -> Result<Envelope> {
    let mut decoder = MessageDecoder::new(message.len(), &Limits::default());
    for piece in pieces {
        decoder.push(piece)?;
    }
    decoder.finish()
}

fn decode(spec: &ModelSpec, envelope: Envelope) -> Result<Vec<Tensor>> {
    Ok(tensors(&filled(spec, grpc::decode(spec, envelope, &SHARING)?)?.request))
}

/// Accepted messages return from their own response, which equals the generated code's.
fn comes_back(spec: &ModelSpec, inputs: &[Tensor]) {
    let Some(response) = answer(spec, inputs) else { return };
    let plan = ResponsePlan::default();
    let bytes: Bytes = grpc::encode(spec, &plan, &response).expect("an answer has a message").concat().into();
    let framed = grpc::encode_framed(spec, &plan, &response).expect("as above").concat();
    assert_eq!(framed[0], 0);
    assert_eq!(framed[1..grpc::FRAME_PREFIX], (bytes.len() as u32).to_be_bytes());
    assert_eq!(framed[grpc::FRAME_PREFIX..], bytes);
    let message = ModelInferResponse::decode(bytes).expect("a message");
    assert_eq!(message, grpc::response(spec, &plan, &response).expect("as above"));

    let request = ModelInferRequest {
        inputs: message
            .outputs
            .into_iter()
            .map(|output| InferInputTensor {
                name: output.name,
                datatype: output.datatype,
                shape: output.shape,
                ..InferInputTensor::default()
            })
            .collect(),
        raw_input_contents: message.raw_output_contents,
        ..ModelInferRequest::default()
    };
    let bytes = request.encode_to_vec();
    let envelope = assembled(&bytes, [&*bytes].into_iter()).expect("a message");
    same_tensors(inputs, &decode(spec, envelope).expect("its own answer"));
}
