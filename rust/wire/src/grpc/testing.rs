//! Builders that the tests of this module share.

use super::{Envelope, MessageDecoder};
use crate::{
    Limits,
    generated::inference::{
        InferParameter, InferTensorContents, ModelInferRequest, infer_parameter::ParameterChoice,
        model_infer_request::InferInputTensor,
    },
};
use bytes::Bytes;
use penstock_core::{Datatype, ModelSpec, Result, TensorSpec};
use proptest::prelude::*;
use prost::Message as _;

/// A declared tensor; -1 is a variable axis.
pub(super) fn input(name: &str, datatype: Datatype, dims: &[i64]) -> TensorSpec {
    let dims = dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    TensorSpec::new(name, datatype, dims)
}

/// A model without batching named `m`, with those inputs and an output of the same kind for each.
pub(super) fn spec(inputs: Vec<TensorSpec>) -> ModelSpec {
    let outputs = inputs.iter().map(|input| TensorSpec { name: format!("{}_out", input.name).into(), ..input.clone() });
    ModelSpec { name: "m".into(), outputs: outputs.collect(), inputs, ..ModelSpec::default() }
}

/// An input of a message.
pub(super) fn given(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    }
}

/// An input of a message with its elements.
pub(super) fn typed(name: &str, datatype: &str, shape: &[i64], contents: InferTensorContents) -> InferInputTensor {
    InferInputTensor { contents: Some(contents), ..given(name, datatype, shape) }
}

/// A message to model `m`.
pub(super) fn message(inputs: Vec<InferInputTensor>, raw: &[&[u8]]) -> ModelInferRequest {
    ModelInferRequest {
        model_name: "m".to_owned(),
        inputs,
        raw_input_contents: raw.iter().map(|entry| Bytes::copy_from_slice(entry)).collect(),
        ..ModelInferRequest::default()
    }
}

/// A parameter's message.
pub(super) fn parameter(choice: ParameterChoice) -> InferParameter {
    InferParameter { parameter_choice: Some(choice) }
}

/// The message as it is read.
pub(crate) fn envelope(message: &ModelInferRequest) -> Envelope {
    from_chunks(&message.encode_to_vec(), &[]).unwrap()
}

/// Decodes a message from chunks that end at `cuts`.
pub(super) fn from_chunks(bytes: &[u8], cuts: &[usize]) -> Result<Envelope> {
    let mut decoder = MessageDecoder::new(bytes.len(), &Limits::default());
    let mut rest = bytes;
    for &cut in cuts {
        let (chunk, tail) = rest.split_at(cut.min(rest.len()));
        decoder.push(chunk)?;
        rest = tail;
    }
    decoder.push(rest)?;
    decoder.finish()
}

/// The lengths of chunks: any, and often tiny.
pub(super) fn cuts() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![0usize..4, 0usize..40], 0..40)
}
