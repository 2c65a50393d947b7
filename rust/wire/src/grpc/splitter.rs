//! Splits the raw tensors off a message as its bytes arrive. They are most of a large message, and are copied once,
//! into the buffer that Python reads.

use super::{
    field_limits::{MAX_FIELDS, too_many_fields},
    protobuf::{Varint, put_varint},
};
use crate::request::bounded;
use bytes::Bytes;
use penstock_core::{
    AlignedBuffer, Error, Result, aligned_with_capacity,
    copies::{self, Step},
};
use prost::Message;
use smallvec::SmallVec;

/// The raw tensors of a message, in order.
pub(super) type Raw = SmallVec<[AlignedBuffer; 2]>;

/// Room for everything but tensors of most messages.
const HEAD_CAPACITY: usize = 256;

/// From this size the head is decoded as shared bytes, so that BYTES elements are views of it.
const SHARED_HEAD: usize = 1024;

/// Message type: numbers of fields, and their names for errors.
#[derive(Debug)]
pub(super) struct Layout {
    /// The message's name.
    pub(super) name: &'static str,
    /// The field of raw tensors.
    pub(super) raw: (u64, &'static str),
    /// Other fields whose entries are bounded.
    pub(super) counted: &'static [(u64, &'static str)],
}

/// Splits a message of known length, chunk by chunk.
pub(super) struct Splitter {
    layout: &'static Layout,
    /// The most entries of each counted field; those of the first bound the raw tensors too.
    most: [usize; 3],
    /// The entries of each counted field so far.
    counts: [usize; 3],
    /// All fields so far.
    fields: usize,
    /// Bytes of the message after the current chunk.
    left: usize,
    state: State,
    head: Vec<u8>,
    raw: Raw,
}

/// Position of the next byte in the message.
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

impl Splitter {
    /// Creates a splitter of a message of `len` bytes. The caller limits `len`: a raw tensor of at most that size is
    /// allocated before its bytes arrive.
    pub(super) fn new(layout: &'static Layout, len: usize, most: [usize; 3]) -> Self {
        Self {
            layout,
            most,
            counts: [0; 3],
            fields: 0,
            left: len,
            state: State::Key(Varint::default()),
            head: Vec::with_capacity(len.min(HEAD_CAPACITY)),
            raw: SmallVec::new(),
        }
    }

    /// Takes the next bytes of the message, of any number.
    pub(super) fn push(&mut self, mut chunk: &[u8]) -> Result<()> {
        let left = self.left.checked_sub(chunk.len());
        self.left = left.ok_or_else(|| Error::invalid("the protobuf message is longer than its frame"))?;
        while !chunk.is_empty() {
            self.state = self.step(&mut chunk)?;
        }
        Ok(())
    }

    /// Number of bytes to come.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// The entries of each counted field so far.
    pub(super) fn counts(&self) -> [usize; 3] {
        self.counts
    }

    /// Everything but the raw tensors, encoded.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Merges everything but the raw tensors into `message` and returns the raw tensors.
    pub(super) fn finish(self, message: &mut impl Message) -> Result<Raw> {
        match self.state {
            State::Key(key) if key.is_empty() && self.left == 0 => {}
            _ => return Err(Error::invalid("the protobuf message ends within a field")),
        }
        let merged = if self.head.len() < SHARED_HEAD {
            message.merge(self.head.as_slice())
        } else {
            message.merge(Bytes::from(self.head))
        };
        let name = self.layout.name;
        merged.map_err(|error| Error::invalid(format!("the protobuf message is not a {name}: {error}")))?;
        Ok(self.raw)
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
                    put_varint(&mut self.head, value);
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

    /// State after a key; `here` bytes of the chunk are left.
    fn field(&mut self, key: u64, here: usize) -> Result<State> {
        if key > u64::from(u32::MAX) || key >> 3 == 0 {
            return Err(Error::invalid(format!("the protobuf message has the impossible field number {}", key >> 3)));
        }
        self.fields += 1;
        if self.fields > MAX_FIELDS {
            return Err(too_many_fields());
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
        put_varint(&mut self.head, key);
        Ok(next)
    }

    /// State after the length of a length-delimited field.
    fn payload(&mut self, key: u64, length: u64, here: usize) -> Result<State> {
        let size = self.fits(key, length, here)?;
        let field = key >> 3;
        if field == self.layout.raw.0 {
            bounded(self.layout.raw.1, self.raw.len() + 1, self.most[0])?;
            self.raw.push(aligned_with_capacity(size));
            return Ok(rest(State::Raw, size));
        }
        for (place, &(counted, what)) in self.layout.counted.iter().enumerate() {
            if field == counted {
                self.counts[place] += 1;
                bounded(what, self.counts[place], self.most[place])?;
            }
        }
        put_varint(&mut self.head, key);
        put_varint(&mut self.head, length);
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
