//! Takes a request message apart as its bytes arrive. Tensors are most of the bytes of a large one:
//! they are copied once, into the buffer that Python is handed.

use super::{
    decode::bounded,
    varint::{self, Varint},
};
use crate::{Limits, generated::inference as pb};
use bytes::Bytes;
use penstock_core::{
    AlignedBuffer, Error, Result, aligned_with_capacity,
    copies::{self, Step},
};
use prost::Message;
use smallvec::SmallVec;
use std::fmt;

const INPUTS: u64 = 5;
const OUTPUTS: u64 = 6;
const RAW_INPUT_CONTENTS: u64 = 7;

/// Room for everything but tensors of most requests.
const HEAD_CAPACITY: usize = 256;

/// From this size the head is decoded as shared bytes, so that BYTES elements are views of it.
const SHARED_HEAD: usize = 1024;

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
pub struct MessageDecoder {
    /// Bytes of the message after the chunk at hand.
    left: usize,
    state: State,
    head: Vec<u8>,
    raw: SmallVec<[AlignedBuffer; 2]>,
    inputs: usize,
    outputs: usize,
    limits: Limits,
}

/// Where in the message the next byte lies.
#[derive(Clone, Copy)]
enum State {
    /// In a field's key.
    Key(Varint),
    /// In the value of a varint field.
    Value(Varint),
    /// In the length of a field with that key.
    Length(u64, Varint),
    /// In so many bytes that go to the head.
    Head(usize),
    /// In so many bytes that go to the last raw tensor.
    Raw(usize),
}

impl MessageDecoder {
    /// A decoder of a message of `len` bytes that names no more inputs and outputs than `limits` says.
    /// The caller bounds `len`: a raw tensor of at most that size is allocated before its bytes are there.
    pub fn new(len: usize, limits: &Limits) -> Self {
        Self {
            left: len,
            state: State::Key(Varint::default()),
            head: Vec::with_capacity(len.min(HEAD_CAPACITY)),
            raw: SmallVec::new(),
            inputs: 0,
            outputs: 0,
            limits: *limits,
        }
    }

    /// Takes the next bytes of the message, of any number.
    ///
    /// # Errors
    /// `InvalidInput` when they are not a message, or more than its length.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<()> {
        let left = self.left.checked_sub(chunk.len());
        self.left = left.ok_or_else(|| Error::invalid("the protobuf message is longer than its frame"))?;
        while !chunk.is_empty() {
            self.state = self.step(&mut chunk)?;
        }
        Ok(())
    }

    /// The message, once all its bytes are there.
    ///
    /// # Errors
    /// `InvalidInput` when bytes are missing, or the message is not a `ModelInferRequest`.
    pub fn finish(self) -> Result<Envelope> {
        match self.state {
            State::Key(key) if key.is_empty() && self.left == 0 => {}
            _ => return Err(Error::invalid("the protobuf message ends within a field")),
        }
        // The lists at their exact sizes: protobuf's own growth starts at four large entries.
        let mut message = pb::ModelInferRequest {
            inputs: Vec::with_capacity(self.inputs),
            outputs: Vec::with_capacity(self.outputs),
            ..pb::ModelInferRequest::default()
        };
        let merged = if self.head.len() < SHARED_HEAD {
            message.merge(self.head.as_slice())
        } else {
            message.merge(Bytes::from(self.head))
        };
        merged.map_err(|error| Error::invalid(format!("the protobuf message is not a ModelInferRequest: {error}")))?;
        Ok(Envelope { message, raw: self.raw })
    }

    /// Takes at least one byte.
    fn step(&mut self, chunk: &mut &[u8]) -> Result<State> {
        Ok(match self.state {
            State::Key(mut varint) => match varint.read(chunk)? {
                None => State::Key(varint),
                Some(key) => self.field(key, chunk.len())?,
            },
            State::Value(mut varint) => match varint.read(chunk)? {
                None => State::Value(varint),
                Some(value) => {
                    varint::put(&mut self.head, value);
                    State::Key(Varint::default())
                }
            },
            State::Length(key, mut varint) => match varint.read(chunk)? {
                None => State::Length(key, varint),
                Some(length) => self.payload(key, length, chunk.len())?,
            },
            State::Head(size) => {
                let part = take(chunk, size);
                self.head.extend_from_slice(part);
                rest(State::Head, size - part.len())
            }
            State::Raw(size) => {
                let part = take(chunk, size);
                copies::count(Step::Receive, part.len());
                if let Some(buffer) = self.raw.last_mut() {
                    buffer.extend_from_slice(part);
                }
                rest(State::Raw, size - part.len())
            }
        })
    }

    /// What follows a key; `here` bytes of the chunk are left.
    fn field(&mut self, key: u64, here: usize) -> Result<State> {
        if key > u64::from(u32::MAX) || key >> 3 == 0 {
            return Err(Error::invalid(format!("the protobuf message has the impossible field number {}", key >> 3)));
        }
        // A length-delimited field's key is written with its length: a raw tensor's is not wanted.
        let next = match key & 7 {
            0 => State::Value(Varint::default()),
            1 => State::Head(self.fits(key, 8, here)?),
            2 => return Ok(State::Length(key, Varint::default())),
            5 => State::Head(self.fits(key, 4, here)?),
            wire_type => {
                return Err(Error::invalid(format!(
                    "field {} of the protobuf message has wire type {wire_type}, expected 0, 1, 2 or 5",
                    key >> 3
                )));
            }
        };
        varint::put(&mut self.head, key);
        Ok(next)
    }

    /// What follows the length of a length-delimited field.
    fn payload(&mut self, key: u64, length: u64, here: usize) -> Result<State> {
        let size = self.fits(key, length, here)?;
        match key >> 3 {
            INPUTS => {
                self.inputs += 1;
                bounded("inputs", self.inputs, self.limits.max_inputs)?;
            }
            OUTPUTS => {
                self.outputs += 1;
                bounded("outputs", self.outputs, self.limits.max_outputs)?;
            }
            RAW_INPUT_CONTENTS => {
                bounded("raw_input_contents", self.raw.len() + 1, self.limits.max_inputs)?;
                self.raw.push(aligned_with_capacity(size));
                return Ok(rest(State::Raw, size));
            }
            _ => {}
        }
        varint::put(&mut self.head, key);
        varint::put(&mut self.head, length);
        self.head.reserve(size);
        Ok(rest(State::Head, size))
    }

    /// The size of a field, which may not reach beyond the message.
    fn fits(&self, key: u64, size: u64, here: usize) -> Result<usize> {
        let left = self.left + here;
        usize::try_from(size).ok().filter(|&size| size <= left).ok_or_else(|| {
            Error::invalid(format!(
                "field {} of the protobuf message has {size} bytes, the message ends after {left}",
                key >> 3
            ))
        })
    }
}

impl fmt::Debug for MessageDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageDecoder").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Splits at most `size` bytes off the front.
fn take<'a>(chunk: &mut &'a [u8], size: usize) -> &'a [u8] {
    let (part, tail) = chunk.split_at(size.min(chunk.len()));
    *chunk = tail;
    part
}

/// Still in a payload of `size` bytes, or after it.
fn rest(state: fn(usize) -> State, size: usize) -> State {
    if size == 0 { State::Key(Varint::default()) } else { state(size) }
}

#[cfg(test)]
mod tests;
