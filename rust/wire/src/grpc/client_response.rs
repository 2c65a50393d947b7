//! Reads a server's response as its chunks arrive, and does not trust it.

use super::{
    contents::{self, TensorHeader},
    message_types::{ResponseMessage, StreamResponseMessage, TensorMessage},
    parameters,
    splitter::{Layout, Raw, Splitter},
};
use crate::{
    ClientResponse, Limits, NamedTensor,
    client_types::{CONTENT_TYPE, JSON, response_error},
    generated::inference::infer_parameter::ParameterChoice,
    request::MAX_PARAMETERS,
};
use bytes::Bytes;
use penstock_core::{Buffer, Datatype, Error, Kind, MAX_RANK, Result, Shape, Tensor, element_count};
use prost::Message as _;
use std::fmt;

const LAYOUT: Layout = Layout {
    name: "ModelInferResponse",
    raw: (6, "raw_output_contents"),
    counted: &[(5, "outputs"), (4, "parameters")],
};

/// Decodes one `ModelInferResponse` of known length.
///
/// Raw tensors are appended to aligned buffers as they arrive. After an error the decoder cannot be used.
///
/// ```
/// use penstock_wire::{Limits, grpc::ResponseDecoder};
///
/// let output = b"\x2a\x0d\x0a\x01y\x12\x05UINT8\x1a\x01\x02"; // output "y", UINT8[2]
/// let bytes = [&b"\x0a\x01m"[..], output, b"\x32\x02\x07\x08"].concat(); // model_name "m", one raw tensor
/// let mut decoder = ResponseDecoder::new(bytes.len(), &Limits::default());
/// decoder.push(&bytes)?;
/// let answer = decoder.finish()?;
/// assert_eq!(answer.outputs[0].tensor.as_slice(), [7, 8]);
/// # Ok::<(), penstock_core::Error>(())
/// ```
pub struct ResponseDecoder(Splitter);

impl ResponseDecoder {
    /// Creates a decoder of a message of `len` bytes, which the caller limits.
    pub fn new(len: usize, limits: &Limits) -> Self {
        Self(Splitter::new(&LAYOUT, len, [limits.max_outputs, MAX_PARAMETERS, 0]))
    }

    /// Takes the next bytes of the message, any number.
    ///
    /// # Errors
    /// `Internal` for bytes that are not a message, or are more than its length.
    pub fn push(&mut self, chunk: &[u8]) -> Result<()> {
        self.0.push(chunk).map_err(|error| response_error(&error))
    }

    /// Returns the response, once all bytes have been pushed.
    ///
    /// # Errors
    /// `Internal` when the message is not a `ModelInferResponse`, or its tensors contradict their headers.
    pub fn finish(self) -> Result<ClientResponse> {
        let mut message = ResponseMessage::default();
        let raw = self.0.finish(&mut message).map_err(|error| response_error(&error))?;
        answer(message, raw).map_err(|error| response_error(&error))
    }
}

impl fmt::Debug for ResponseDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseDecoder").field("left", &self.0.left()).finish_non_exhaustive()
    }
}

/// Decodes a `ModelStreamInferResponse`.
///
/// # Errors
/// As for [`ResponseDecoder::finish`]. `Handler` with the message's error text: a stream continues after it.
pub fn decode_stream_response(message: Bytes) -> Result<ClientResponse> {
    let message =
        StreamResponseMessage::decode(message).map_err(|error| response_error(&Error::invalid(error.to_string())))?;
    if !message.error_message.is_empty() {
        return Err(Error::new(Kind::Handler, message.error_message));
    }
    let length = message.answer.iter().map(Bytes::len).sum();
    let mut decoder = ResponseDecoder::new(length, &Limits::default());
    message.answer.iter().try_for_each(|part| decoder.push(part))?;
    decoder.finish()
}

fn answer(message: ResponseMessage, raw: Raw) -> Result<ClientResponse> {
    let count = message.outputs.len();
    // Some servers leave out the entries of outputs that have no elements, or that are typed.
    if raw.len() > count {
        let got = raw.len();
        return Err(Error::invalid(format!("it has {got} entries in raw_output_contents for {count} outputs")));
    }
    let all_have_one = raw.len() == count;
    let mut raw = raw.into_iter();
    let documents = message.outputs.iter().filter(|output| is_document(output)).map(|output| output.name.clone());
    let documents = documents.collect();
    let outputs = message.outputs.into_iter().map(|output| {
        let header = header(&output)?;
        let typed = !output.contents.is_empty() || header.count == 0;
        let entry = if all_have_one || !typed { raw.next() } else { None };
        let buffer = match entry {
            Some(entry) if output.contents.is_empty() || !entry.is_empty() => entry,
            _ => contents::buffer(&output.name, &header, &output.contents)?,
        };
        let tensor = Tensor::new(header.datatype, header.shape, Buffer::Aligned(buffer))
            .map_err(|error| Error::invalid(format!("output '{}': {}", output.name, error.message())))?;
        Ok(NamedTensor { name: output.name, tensor })
    });
    Ok(ClientResponse {
        outputs: outputs.collect::<Result<_>>()?,
        model: message.model_name,
        version: message.model_version,
        id: message.id,
        parameters: parameters::plain(message.parameters),
        documents,
    })
}

fn is_document(output: &TensorMessage) -> bool {
    let choice = output.parameters.get(CONTENT_TYPE).and_then(|given| given.parameter_choice.as_ref());
    matches!(choice, Some(ParameterChoice::StringParam(given)) if given == JSON)
}

fn header(output: &TensorMessage) -> Result<TensorHeader> {
    let name = &output.name;
    let datatype = Datatype::from_name(&output.datatype)
        .ok_or_else(|| Error::invalid(format!("output '{name}' has unknown datatype '{}'", output.datatype)))?;
    let dims: Option<Shape> = output.shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let shape = dims
        .filter(|shape| shape.len() <= MAX_RANK)
        .ok_or_else(|| Error::invalid(format!("output '{name}' has the impossible shape {:?}", output.shape)))?;
    let count = element_count(&shape)?;
    Ok(TensorHeader { index: 0, datatype, shape, count, span: None })
}

#[cfg(test)]
mod tests;
