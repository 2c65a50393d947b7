//! Inference messages as they are read. They differ from the generated ones in two ways: the contents of a tensor stay
//! encoded until its datatype and shape are known, and raw tensors are not part of them.
//!
//! The generated types would decode contents into vectors of up to 16 times their bytes, before anything is checked.

use crate::generated::inference as pb;
use bytes::Bytes;
use pb::model_infer_request::InferRequestedOutputTensor;
use std::collections::BTreeMap;

type Parameters = BTreeMap<String, pb::InferParameter>;

/// A `ModelInferRequest` without its `raw_input_contents`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RequestMessage {
    /// Name of the model.
    #[prost(string, tag = "1")]
    pub model_name: String,
    /// Version of the model; empty for the latest.
    #[prost(string, tag = "2")]
    pub model_version: String,
    /// Id of the request.
    #[prost(string, tag = "3")]
    pub id: String,
    /// Parameters of the request.
    #[prost(btree_map = "string, message", tag = "4")]
    pub parameters: Parameters,
    /// Input tensors.
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<TensorMessage>,
    /// Requested outputs; none for all.
    #[prost(message, repeated, tag = "6")]
    pub outputs: Vec<InferRequestedOutputTensor>,
}

/// A `ModelInferResponse` without its `raw_output_contents`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResponseMessage {
    #[prost(string, tag = "1")]
    pub(super) model_name: String,
    #[prost(string, tag = "2")]
    pub(super) model_version: String,
    #[prost(string, tag = "3")]
    pub(super) id: String,
    #[prost(btree_map = "string, message", tag = "4")]
    pub(super) parameters: Parameters,
    #[prost(message, repeated, tag = "5")]
    pub(super) outputs: Vec<TensorMessage>,
}

/// An `InferInputTensor` or an `InferOutputTensor`: their fields have the same numbers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorMessage {
    /// Name of the tensor.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Datatype by its protocol name, such as `FP32`.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// Dimensions.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
    /// Parameters of the tensor.
    #[prost(btree_map = "string, message", tag = "4")]
    pub parameters: Parameters,
    /// Encoded `InferTensorContents`. All occurrences, since protobuf merges them.
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub contents: Vec<Bytes>,
}

/// A `ModelStreamInferResponse` whose response is still encoded.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StreamResponseMessage {
    #[prost(string, tag = "1")]
    pub(super) error_message: String,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) answer: Vec<Bytes>,
}
