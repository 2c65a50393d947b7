//! Decodes request messages as their bytes arrive.

use super::{
    field_limits,
    message_types::{RequestMessage, TensorMessage},
    splitter::{Layout, Splitter},
};
use crate::{Limits, request::MAX_PARAMETERS};
use penstock_core::{AlignedBuffer, Datatype, Result};
use smallvec::SmallVec;
use std::fmt;

const LAYOUT: Layout = Layout {
    name: "ModelInferRequest",
    raw: (7, "raw_input_contents"),
    counted: &[(5, "inputs"), (6, "outputs"), (4, "parameters")],
};

/// A request message, its raw tensors apart.
pub struct Envelope {
    /// The message without its `raw_input_contents`.
    pub message: RequestMessage,
    /// The entries of `raw_input_contents`, in order.
    pub raw: SmallVec<[AlignedBuffer; 2]>,
}

impl Envelope {
    /// Bytes of the typed contents, encoded and as tensors: varints and short strings become larger.
    /// The latter is at most what [`super::decode`] allocates for them.
    pub fn typed_bytes(&self) -> (usize, usize) {
        let inputs = self.message.inputs.iter().filter(|input| !input.contents.is_empty());
        inputs.fold((0, 0), |(encoded, decoded), input| {
            let bytes: usize = input.contents.iter().map(|part| part.len()).sum();
            (encoded + bytes, decoded + decoded_bytes(input, bytes))
        })
    }
}

/// The bytes of a tensor whose contents have `encoded` bytes, by its shape, and never more than they could hold.
fn decoded_bytes(input: &TensorMessage, encoded: usize) -> usize {
    // An empty string takes two bytes, and four in a tensor.
    let Some(size) = Datatype::from_name(&input.datatype).and_then(Datatype::size) else { return encoded * 2 };
    let elements = input.shape.iter().map(|&dim| usize::try_from(dim).unwrap_or(0));
    elements.fold(size, usize::saturating_mul).min(encoded * size)
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<usize> = self.raw.iter().map(|buffer| buffer.len()).collect();
        f.debug_struct("Envelope").field("message", &self.message).field("raw_sizes", &sizes).finish()
    }
}

/// Decodes one `ModelInferRequest` of known length from the chunks it arrives in.
///
/// The payloads of `raw_input_contents` are appended to aligned buffers as they arrive; everything else is collected
/// and decoded at the end. Holds at most the message's length in bytes. After an error the decoder cannot be used.
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
    /// Creates a decoder of a message of `len` bytes within `limits`. The caller limits `len`: a raw tensor of at most
    /// that size is allocated before its bytes arrive.
    pub fn new(len: usize, limits: &Limits) -> Self {
        Self(Splitter::new(&LAYOUT, len, [limits.max_inputs, limits.max_outputs, MAX_PARAMETERS]))
    }

    /// Takes the next bytes of the message, of any number.
    ///
    /// # Errors
    /// `InvalidInput` when they are not a message, or more than its length.
    pub fn push(&mut self, chunk: &[u8]) -> Result<()> {
        self.0.push(chunk)
    }

    /// Bytes that [`MessageDecoder::finish`] decodes: all but the raw tensors.
    pub fn head_len(&self) -> usize {
        self.0.head().len()
    }

    /// Returns the message, once all bytes have been pushed.
    ///
    /// # Errors
    /// `InvalidInput` when bytes are missing, the message is not a `ModelInferRequest`, or has more than
    /// [`MAX_PARAMETERS`].
    pub fn finish(self) -> Result<Envelope> {
        // A parameter takes two bytes, a dimension one: a small head cannot hold too many of them.
        if self.head_len() > MAX_PARAMETERS {
            field_limits::check(self.0.head())?;
        }
        let [inputs, outputs, _] = self.0.counts();
        // The lists at their exact sizes: protobuf's own growth starts at four large entries.
        let mut message = RequestMessage {
            inputs: Vec::with_capacity(inputs),
            outputs: Vec::with_capacity(outputs),
            ..RequestMessage::default()
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
