//! Encodes response messages. Every tensor has a raw entry, since clients read the entry at an output's index without
//! checking its presence.

use super::{
    parameters,
    protobuf::{put_varint, varint_size},
};
use crate::client_types::{CONTENT_TYPE, JSON};
use crate::generated::{inference as pb, inference::model_infer_response::InferOutputTensor};
use bytes::{BufMut, Bytes, BytesMut};
use penstock_core::{
    BodyChunks, Buffer, Error, InferResponse, Kind, ModelSpec, Parameter, Parameters, ResponseHead, ResponsePlan,
    Result, Tensor,
    copies::{self, Step},
};
use prost::Message;
use smallvec::SmallVec;

/// Bytes before each message of a gRPC stream: a flag for compression and the length.
pub const FRAME_PREFIX: usize = 5;

/// The longest message that clients read.
pub const MAX_MESSAGE: usize = i32::MAX as usize;

/// Tensors of at least this size are separate chunks, without a copy.
pub(super) const OWN_CHUNK: usize = 16 * 1024;

// Keys of length-delimited fields: the number, and wire type 2.
pub(super) const MODEL_NAME: u8 = 1 << 3 | 2;
pub(super) const MODEL_VERSION: u8 = 2 << 3 | 2;
pub(super) const ID: u8 = 3 << 3 | 2;
const OUTPUTS: u8 = 5 << 3 | 2;
const RAW_OUTPUT_CONTENTS: u8 = 6 << 3 | 2;
const OUTPUT_NAME: u8 = 1 << 3 | 2;
const OUTPUT_DATATYPE: u8 = 2 << 3 | 2;
const OUTPUT_SHAPE: u8 = 3 << 3 | 2;
/// The parameter `content_type` of an output whose elements are JSON documents, as field 4 of the output.
const DOCUMENT: &[u8] = b"\x22\x22\x0a\x0ccontent_type\x12\x12\x1a\x10application/json";

type Outputs<'a> = SmallVec<[Output<'a>; 4]>;

/// A tensor to send, and the sizes that protobuf wants in advance. Inputs have the same fields.
pub(super) struct Output<'a> {
    name: &'a str,
    pub(super) tensor: &'a Tensor,
    /// Bytes of the packed shape.
    shape: usize,
    /// Bytes of the whole `InferOutputTensor`.
    pub(super) size: usize,
    /// The elements are in shared memory: the raw entry is empty.
    shared: bool,
    /// The elements are JSON documents.
    document: bool,
}

/// Builds the response message. Outputs with shared buffers become views; others are copied.
///
/// # Errors
/// `Internal` when the response has an output that the model lacks; `Handler` for a body of the model that is not a
/// message.
pub fn response(spec: &ModelSpec, plan: &ResponsePlan, response: &InferResponse) -> Result<pb::ModelInferResponse> {
    if let Some(message) = encoded_by_model(response) {
        return pb::ModelInferResponse::decode(&**message).map_err(|_| {
            let text = "returned an application/grpc body that is not a ModelInferResponse";
            Error::handler(format!("model '{}' {text}", spec.name))
        });
    }
    let outputs = outputs(spec, plan, response)?;
    Ok(pb::ModelInferResponse {
        model_name: spec.name.to_string(),
        model_version: spec.version.to_string(),
        id: plan.id.clone(),
        parameters: response
            .parameters
            .iter()
            .map(|(name, value)| (name.clone(), parameters::encoded(value)))
            .collect(),
        outputs: outputs.iter().map(Output::message).collect(),
        raw_output_contents: outputs.iter().map(Output::entry).collect(),
    })
}

/// The bytes of [`response`]'s message: small tensors joined with the rest, large ones uncopied.
///
/// # Errors
/// As [`response`]; `TooLarge` beyond [`MAX_MESSAGE`].
pub fn encode(spec: &ModelSpec, plan: &ResponsePlan, response: &InferResponse) -> Result<BodyChunks> {
    match encoded_by_model(response) {
        Some(message) => Ok([message.clone()].into_iter().collect()),
        None => Encoder::new(spec, plan, response)?.chunks(false),
    }
}

/// As [`encode`], behind the prefix of an uncompressed gRPC message: what goes on the stream.
///
/// # Errors
/// As [`encode`].
pub fn encode_framed(spec: &ModelSpec, plan: &ResponsePlan, response: &InferResponse) -> Result<BodyChunks> {
    let Some(message) = encoded_by_model(response) else { return Encoder::new(spec, plan, response)?.chunks(true) };
    let prefix = Bytes::copy_from_slice(&prefix(false, message.len())?);
    Ok([prefix, message.clone()].into_iter().collect())
}

/// The message that the model has encoded itself.
fn encoded_by_model(response: &InferResponse) -> Option<&Bytes> {
    response.head.as_deref().and_then(ResponseHead::message)
}

/// Prefix of a message of `length` bytes.
///
/// # Errors
/// `TooLarge` beyond [`MAX_MESSAGE`].
pub fn prefix(compressed: bool, length: usize) -> Result<[u8; FRAME_PREFIX]> {
    let announced = u32::try_from(length).ok().filter(|_| length <= MAX_MESSAGE).ok_or_else(|| {
        let text = format!("the response has {length} bytes, a gRPC message holds at most {MAX_MESSAGE}");
        Error::new(Kind::TooLarge, text)
    })?;
    let [a, b, c, d] = announced.to_be_bytes();
    Ok([u8::from(compressed), a, b, c, d])
}

struct Encoder<'a> {
    spec: &'a ModelSpec,
    id: &'a str,
    /// Field 4, which is rare, in protobuf's form.
    parameters: Vec<u8>,
    /// Another entry of it, in protobuf's form, or nothing.
    marker: &'static [u8],
    outputs: Outputs<'a>,
}

impl<'a> Encoder<'a> {
    fn new(spec: &'a ModelSpec, plan: &'a ResponsePlan, response: &'a InferResponse) -> Result<Self> {
        let outputs = outputs(spec, plan, response)?;
        Ok(Self { spec, id: &plan.id, parameters: encoded_parameters(&response.parameters), marker: &[], outputs })
    }

    fn chunks(&self, framed: bool) -> Result<BodyChunks> {
        let large: usize = self.outputs.iter().map(|output| output.raw().len()).filter(|&len| len >= OWN_CHUNK).sum();
        let length = self.size();
        let prefix = prefix(false, length)?;
        let mut buffer = BytesMut::with_capacity(length - large + if framed { FRAME_PREFIX } else { 0 });
        if framed {
            buffer.put_slice(&prefix);
        }
        self.put_head(&mut buffer);
        let mut chunks = BodyChunks::new();
        for output in &self.outputs {
            let bytes = output.raw();
            put_key(&mut buffer, RAW_OUTPUT_CONTENTS, bytes.len());
            if bytes.len() < OWN_CHUNK {
                copies::count(Step::Encode, bytes.len());
                buffer.put_slice(bytes);
            } else {
                chunks.push(buffer.split().freeze());
                chunks.push(output.entry());
            }
        }
        if !buffer.is_empty() {
            chunks.push(buffer.freeze());
        }
        Ok(chunks)
    }

    /// Bytes of the whole message.
    fn size(&self) -> usize {
        let raw: usize = self.outputs.iter().map(|output| delimited_size(output.raw().len())).sum();
        raw + self.head_size()
    }

    fn head_size(&self) -> usize {
        text_size(&self.spec.name)
            + text_size(&self.spec.version)
            + text_size(self.id)
            + self.parameters.len()
            + self.marker.len()
            + self.outputs.iter().map(|output| delimited_size(output.size)).sum::<usize>()
    }

    fn put_head(&self, buffer: &mut BytesMut) {
        put_text(buffer, MODEL_NAME, &self.spec.name);
        put_text(buffer, MODEL_VERSION, &self.spec.version);
        put_text(buffer, ID, self.id);
        buffer.put_slice(&self.parameters);
        buffer.put_slice(self.marker);
        for output in &self.outputs {
            output.put(buffer);
        }
    }
}

impl<'a> Output<'a> {
    pub(super) fn new(name: &'a str, tensor: &'a Tensor) -> Self {
        let shape = tensor.shape().iter().map(|&dim| varint_size(dim as u64)).sum();
        let packed = if shape == 0 { 0 } else { delimited_size(shape) };
        let size = text_size(name) + text_size(tensor.datatype().name()) + packed;
        Self { name, tensor, shape, size, shared: false, document: false }
    }

    /// Marks its elements as JSON documents.
    fn document(self) -> Self {
        Self { size: self.size + DOCUMENT.len(), document: true, ..self }
    }

    /// Writes it as field 5: an output of a response, an input of a request.
    pub(super) fn put(&self, buffer: &mut BytesMut) {
        put_key(buffer, OUTPUTS, self.size);
        put_text(buffer, OUTPUT_NAME, self.name);
        put_text(buffer, OUTPUT_DATATYPE, self.tensor.datatype().name());
        if self.shape > 0 {
            put_key(buffer, OUTPUT_SHAPE, self.shape);
            self.tensor.shape().iter().for_each(|&dim| put_varint(buffer, dim as u64));
        }
        if self.document {
            buffer.put_slice(DOCUMENT);
        }
    }

    /// The bytes of its entry.
    fn raw(&self) -> &'a [u8] {
        if self.shared { &[] } else { self.tensor.as_slice() }
    }

    /// As [`Output::raw`]; large tensors are not copied.
    pub(super) fn entry(&self) -> Bytes {
        match self.tensor.buffer() {
            _ if self.shared => Bytes::new(),
            Buffer::Shared(bytes) => bytes.clone(),
            other => Bytes::copy_from_slice(other.as_slice()),
        }
    }

    fn message(&self) -> InferOutputTensor {
        InferOutputTensor {
            name: self.name.to_owned(),
            datatype: self.tensor.datatype().name().to_owned(),
            // A dimension of a tensor in memory is far below `i64::MAX`; with a zero dimension another may be larger.
            shape: self.tensor.shape().iter().map(|&dim| dim as i64).collect(),
            parameters: self.document.then(json_type).into_iter().collect(),
            ..InferOutputTensor::default()
        }
    }
}

fn outputs<'a>(spec: &'a ModelSpec, plan: &ResponsePlan, response: &'a InferResponse) -> Result<Outputs<'a>> {
    let selected = response.selected(plan).into_iter();
    let outputs = selected.map(|(requested, tensor)| match response.output_name(spec, requested.index) {
        Some(name) => {
            let output = Output { shared: requested.shared, ..Output::new(name, tensor) };
            Ok(if response.is_document(spec, requested) { output.document() } else { output })
        }
        None => {
            Err(Error::new(Kind::Internal, format!("model '{}' returned more outputs than it declares", spec.name)))
        }
    });
    outputs.collect()
}

/// The parameter that [`DOCUMENT`] encodes.
fn json_type() -> (String, pb::InferParameter) {
    (CONTENT_TYPE.to_owned(), parameters::encoded(&Parameter::String(JSON.to_owned())))
}

fn encoded_parameters(given: &Parameters) -> Vec<u8> {
    if given.is_empty() {
        return Vec::new();
    }
    let parameters = given.iter().map(|(name, value)| (name.clone(), parameters::encoded(value))).collect();
    pb::ModelInferResponse { parameters, ..Default::default() }.encode_to_vec()
}

/// Bytes of a length-delimited field of `len` bytes, with a key of one byte.
pub(super) fn delimited_size(len: usize) -> usize {
    1 + varint_size(len as u64) + len
}

/// As [`delimited_size`]; an empty text is left out, as in proto3.
pub(super) fn text_size(text: &str) -> usize {
    if text.is_empty() { 0 } else { delimited_size(text.len()) }
}

pub(super) fn put_key(buffer: &mut BytesMut, key: u8, len: usize) {
    buffer.put_u8(key);
    put_varint(buffer, len as u64);
}

pub(super) fn put_text(buffer: &mut BytesMut, key: u8, text: &str) {
    if !text.is_empty() {
        put_key(buffer, key, text.len());
        buffer.put_slice(text.as_bytes());
    }
}

mod stream;
pub use stream::{FINAL_RESPONSE, put_framed, put_stream_response};

#[cfg(test)]
mod tests;
