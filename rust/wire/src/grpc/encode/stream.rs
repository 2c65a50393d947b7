//! Framed messages of streams, appended to those that leave with them.

use super::{
    Encoder, FRAME_PREFIX, Output, RAW_OUTPUT_CONTENTS, delimited_size, encoded_by_model, prefix, put_key, response,
};
use crate::generated::inference as pb;
use bytes::{BufMut as _, BytesMut};
use penstock_core::{
    InferResponse, ModelSpec, ResponsePlan, Result,
    copies::{self, Step},
};
use prost::Message;

/// Key of `ModelStreamInferResponse.infer_response`.
const INFER_RESPONSE: u8 = 2 << 3 | 2;

/// Parameter that marks the last response to a request, as Triton's clients expect.
pub const FINAL_RESPONSE: &str = "triton_final_response";

/// Entries of `parameters` with [`FINAL_RESPONSE`], in protobuf's form. Every message of a stream has one of them.
const NOT_FINAL: &[u8] = b"\x22\x1b\x0a\x15triton_final_response\x12\x02\x08\x00";
const FINAL: &[u8] = b"\x22\x1b\x0a\x15triton_final_response\x12\x02\x08\x01";

/// Appends a `ModelStreamInferResponse` behind the prefix of an uncompressed gRPC message. Tensors are copied.
/// Its parameter [`FINAL_RESPONSE`] is `last`, except in a message that the model has encoded.
///
/// # Errors
/// Those of [`response`] and [`super::encode_framed`]; nothing is appended then.
pub fn put_stream_response(
    out: &mut BytesMut,
    spec: &ModelSpec,
    plan: &ResponsePlan,
    infer_response: &InferResponse,
    last: bool,
) -> Result<()> {
    if encoded_by_model(infer_response).is_some() {
        let infer_response = Some(response(spec, plan, infer_response)?);
        return put_framed(out, &pb::ModelStreamInferResponse { infer_response, ..Default::default() });
    }
    let marker = if last { FINAL } else { NOT_FINAL };
    let encoder = Encoder { marker, ..Encoder::new(spec, plan, infer_response)? };
    let size = encoder.size();
    let length = delimited_size(size);
    let prefix = prefix(false, length)?;
    out.reserve(FRAME_PREFIX + length);
    out.put_slice(&prefix);
    put_key(out, INFER_RESPONSE, size);
    encoder.put_head(out);
    for bytes in encoder.outputs.iter().map(Output::raw) {
        copies::count(Step::Encode, bytes.len());
        put_key(out, RAW_OUTPUT_CONTENTS, bytes.len());
        out.put_slice(bytes);
    }
    Ok(())
}

/// Appends a message behind the prefix of an uncompressed gRPC message.
///
/// # Errors
/// `TooLarge` beyond [`super::MAX_MESSAGE`]; nothing is appended then.
pub fn put_framed(out: &mut BytesMut, message: &impl Message) -> Result<()> {
    let length = message.encoded_len();
    let prefix = prefix(false, length)?;
    out.reserve(FRAME_PREFIX + length);
    out.put_slice(&prefix);
    message.encode_raw(out);
    Ok(())
}
