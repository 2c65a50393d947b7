//! Takes a request message apart as its bytes arrive.

use super::split::{Layout, Splitter};
use crate::{Limits, generated::inference as pb};
use penstock_core::{AlignedBuffer, Result, aligned_with_capacity};
use smallvec::SmallVec;
use std::fmt;

const LAYOUT: Layout =
    Layout { name: "ModelInferRequest", raw: (7, "raw_input_contents"), counted: &[(5, "inputs"), (6, "outputs")] };

/// A request message, its raw tensors apart.
pub struct Envelope {
    /// The message; its `raw_input_contents` are empty.
    pub message: pb::ModelInferRequest,
    /// The entries of `raw_input_contents`, in order.
    pub raw: SmallVec<[AlignedBuffer; 2]>,
}

impl From<pb::ModelInferRequest> for Envelope {
    /// For messages that came whole. Copies each raw tensor into a buffer of its own.
    fn from(mut message: pb::ModelInferRequest) -> Self {
        let entries = std::mem::take(&mut message.raw_input_contents);
        let raw = entries.iter().map(|entry| {
            let mut buffer = aligned_with_capacity(entry.len());
            buffer.extend_from_slice(entry);
            buffer
        });
        Self { raw: raw.collect(), message }
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<usize> = self.raw.iter().map(|buffer| buffer.len()).collect();
        f.debug_struct("Envelope").field("message", &self.message).field("raw_sizes", &sizes).finish()
    }
}

/// Decodes one `ModelInferRequest` of known length from the chunks it arrives in.
///
/// The payloads of `raw_input_contents` are appended to aligned buffers as they come; everything else
/// is collected and decoded at the end. Holds at most the message's length in bytes. After an error
/// it is good for nothing but to be dropped.
///
/// ```
/// use penstock_wire::{Limits, grpc::MessageDecoder};
///
/// let bytes = [0x0a, 1, b'm', 0x3a, 2, 7, 8]; // model_name "m", one raw tensor
/// let mut decoder = MessageDecoder::new(bytes.len(), &Limits::default());
/// for chunk in bytes.chunks(3) {
///     decoder.push(chunk)?;
/// }
/// let envelope = decoder.finish()?;
/// assert_eq!(envelope.message.model_name, "m");
/// assert_eq!(envelope.raw[0].as_slice(), [7, 8]);
/// # Ok::<(), penstock_core::Error>(())
/// ```
pub struct MessageDecoder(Splitter);

impl MessageDecoder {
    /// A decoder of a message of `len` bytes that names no more inputs and outputs than `limits` says.
    /// The caller bounds `len`: a raw tensor of at most that size is allocated before its bytes are there.
    pub fn new(len: usize, limits: &Limits) -> Self {
        Self(Splitter::new(&LAYOUT, len, [limits.max_inputs, limits.max_outputs]))
    }

    /// Takes the next bytes of the message, of any number.
    ///
    /// # Errors
    /// `InvalidInput` when they are not a message, or more than its length.
    pub fn push(&mut self, chunk: &[u8]) -> Result<()> {
        self.0.push(chunk)
    }

    /// The message, once all its bytes are there.
    ///
    /// # Errors
    /// `InvalidInput` when bytes are missing, or the message is not a `ModelInferRequest`.
    pub fn finish(self) -> Result<Envelope> {
        let [inputs, outputs] = self.0.counts();
        // The lists at their exact sizes: protobuf's own growth starts at four large entries.
        let mut message = pb::ModelInferRequest {
            inputs: Vec::with_capacity(inputs),
            outputs: Vec::with_capacity(outputs),
            ..pb::ModelInferRequest::default()
        };
        let raw = self.0.finish(&mut message)?;
        Ok(Envelope { message, raw })
    }
}

impl fmt::Debug for MessageDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageDecoder").field("left", &self.0.left()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
