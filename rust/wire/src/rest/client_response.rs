//! Reads a server's infer response: the JSON at once, the tensors after it as they arrive. It does not trust the
//! server.

use super::parameters;
use crate::json::{
    array,
    reader::{Reader, Skip},
    target::Target,
};
use crate::{
    ClientResponse, Limits, NamedTensor,
    client_types::{CONTENT_TYPE, JSON, response_error},
};
use penstock_core::{
    AlignedBuffer, Buffer, Datatype, Error, Parameter, Parameters, Result, Shape, Tensor, aligned_with_capacity,
    byte_size,
};
use smallvec::SmallVec;

/// A response whose JSON is read and whose tensors may still arrive.
#[derive(Debug)]
pub struct ResponseDecoder {
    answer: ClientResponse,
    parts: SmallVec<[Part; 2]>,
    /// The first part that may want bytes.
    current: usize,
}

/// An output, and the part of its data that has arrived.
#[derive(Debug)]
struct Part {
    name: String,
    datatype: Datatype,
    shape: Shape,
    /// The bytes up to `at`, and zeros that are to be overwritten.
    buffer: AlignedBuffer,
    at: usize,
    /// Total size in bytes.
    size: usize,
    /// Its elements are JSON documents.
    document: bool,
}

/// Maximum of zeros written ahead of the bytes that replace them: they are still in the CPU cache then.
const AHEAD: usize = 256 << 10;

/// Reads the JSON of a response, which `tail_len` bytes follow. The caller limits `tail_len`.
///
/// # Errors
/// `Internal` for a malformed response.
pub fn begin_response(json: &[u8], tail_len: usize, limits: &Limits) -> Result<ResponseDecoder> {
    let read = || {
        let mut head = ResponseJson { limits, answer: ClientResponse::default(), parts: SmallVec::new() };
        head.read(json)?;
        check_tail(&head.parts, tail_len)?;
        for part in head.parts.iter_mut().filter(|part| part.at < part.size) {
            part.buffer = aligned_with_capacity(part.size);
        }
        Ok(ResponseDecoder { answer: head.answer, parts: head.parts, current: 0 })
    };
    read().map_err(|error| response_error(&error))
}

impl ResponseDecoder {
    /// Destination of the next bytes after the JSON; empty once all have arrived.
    pub fn room(&mut self) -> &mut [u8] {
        while self.parts.get(self.current).is_some_and(|part| part.at == part.size) {
            self.current += 1;
        }
        let Some(part) = self.parts.get_mut(self.current) else { return &mut [] };
        if part.at == part.buffer.len() {
            let ahead = (part.size - part.at).min(AHEAD);
            part.buffer.resize(part.at + ahead, 0);
        }
        &mut part.buffer[part.at..]
    }

    /// Marks the first `count` bytes of [`room`](Self::room) as filled.
    pub fn filled(&mut self, count: usize) {
        if let Some(part) = self.parts.get_mut(self.current) {
            part.at += count.min(part.buffer.len() - part.at);
        }
    }

    /// Copies bytes after the JSON.
    ///
    /// # Errors
    /// `Internal` for more bytes than announced.
    pub fn write(&mut self, mut chunk: &[u8]) -> Result<()> {
        while !chunk.is_empty() {
            let room = self.room();
            if room.is_empty() {
                let error = format!("{} bytes follow the last binary output", chunk.len());
                return Err(response_error(&Error::invalid(error)));
            }
            let (own, rest) = chunk.split_at(chunk.len().min(room.len()));
            room[..own.len()].copy_from_slice(own);
            self.filled(own.len());
            chunk = rest;
        }
        Ok(())
    }

    /// Returns the response, once all bytes have arrived.
    ///
    /// # Errors
    /// `Internal` when bytes are missing, or BYTES framing is broken.
    pub fn finish(mut self) -> Result<ClientResponse> {
        for part in self.parts {
            if part.document {
                self.answer.documents.push(part.name.clone());
            }
            let output = part.finish().map_err(|error| response_error(&error))?;
            self.answer.outputs.push(output);
        }
        Ok(self.answer)
    }
}

impl Part {
    fn finish(self) -> Result<NamedTensor> {
        let name = self.name;
        if self.at < self.size {
            let missing = self.size - self.at;
            return Err(Error::invalid(format!("the body ends {missing} bytes before the end of output '{name}'")));
        }
        let tensor = Tensor::new(self.datatype, self.shape, Buffer::Aligned(self.buffer))
            .map_err(|error| Error::invalid(format!("output '{name}': {}", error.message())))?;
        Ok(NamedTensor { name, tensor })
    }
}

/// Checks the announced sizes against the bytes after the JSON, before buffers are allocated.
fn check_tail(parts: &[Part], tail_len: usize) -> Result<()> {
    let announced = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.size - part.at));
    if announced == Some(tail_len) {
        return Ok(());
    }
    let announced = announced.map_or_else(|| "too many".to_owned(), |announced| announced.to_string());
    Err(Error::invalid(format!("{tail_len} bytes follow its JSON, 'binary_data_size' announces {announced}")))
}

struct ResponseJson<'l> {
    limits: &'l Limits,
    answer: ClientResponse,
    parts: SmallVec<[Part; 2]>,
}

impl ResponseJson<'_> {
    fn read(&mut self, json: &[u8]) -> Result<()> {
        let mut reader = Reader::new(json);
        reader.expect(b'{', "a JSON object")?;
        let (mut first, mut has_outputs) = (true, false);
        while let Some(key) = reader.key(&mut first)? {
            match &*key.bytes()? {
                b"model_name" => self.answer.model = text_or_null(&mut reader)?,
                b"model_version" => self.answer.version = text_or_null(&mut reader)?,
                b"id" => self.answer.id = text_or_null(&mut reader)?,
                b"parameters" => self.answer.parameters = self.parameters(&mut reader, 1)?,
                b"outputs" => {
                    has_outputs = true;
                    self.read_outputs(&mut reader)?;
                }
                _ => self.skip(&mut reader, 1)?,
            }
        }
        if reader.peek().is_some() {
            return Err(reader.fault("nothing after the answer's object").into());
        }
        if has_outputs { Ok(()) } else { Err(Error::invalid("it has no 'outputs'")) }
    }

    fn read_outputs(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let most = self.limits.max_outputs;
        self.parts.clear();
        reader.expect(b'[', "an array for 'outputs'")?;
        let mut first = true;
        while reader.item(&mut first)? {
            if self.parts.len() == most {
                return Err(Error::invalid(format!("it has more than {most} outputs")));
            }
            let part = self.read_output(reader)?;
            self.parts.push(part);
        }
        Ok(())
    }

    fn read_output(&self, reader: &mut Reader<'_>) -> Result<Part> {
        let (mut name, mut datatype, mut shape, mut data_at) = (None, None, None, None);
        let mut parameters = Parameters::new();
        reader.expect(b'{', "an object for each of 'outputs'")?;
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            match &*key.bytes()? {
                b"name" => name = Some(reader.string("a string for an output's 'name'")?.text()?.into_owned()),
                b"datatype" => {
                    let text = reader.string("a string for an output's 'datatype'")?.text()?;
                    let known = Datatype::from_name(&text);
                    datatype = Some(known.ok_or_else(|| Error::invalid(format!("unknown datatype '{text}'")))?);
                }
                b"shape" => shape = Some(read_shape(reader)?),
                b"parameters" => parameters = self.parameters(reader, 3)?,
                b"data" => {
                    // Read at the end, when all is known that the elements depend on.
                    reader.peek();
                    data_at = Some(reader.at());
                    self.skip(reader, 3)?;
                }
                _ => self.skip(reader, 3)?,
            }
        }
        let name = name.ok_or_else(|| Error::invalid("an output has no 'name'"))?;
        let missing = |key: &str| Error::invalid(format!("output '{name}' has no '{key}'"));
        let datatype = datatype.ok_or_else(|| missing("datatype"))?;
        let shape: Shape = shape.ok_or_else(|| missing("shape"))?;
        let mut part =
            Part { name, datatype, shape, buffer: aligned_with_capacity(0), at: 0, size: 0, document: false };
        let content_type = parameters.iter().find(|(name, _)| name == CONTENT_TYPE);
        let is = |kind| matches!(content_type, Some((_, Parameter::String(given))) if given == kind);
        part.document = is(JSON);
        match (binary_size(&parameters)?, data_at) {
            (Some(size), _) => {
                check_size(&part, size)?;
                part.size = size;
            }
            (None, Some(at)) => {
                let target = self.target(&part.name, datatype, &part.shape, is("base64"));
                part.buffer = array::read(&mut reader.from(at), &target)?;
                (part.at, part.size) = (part.buffer.len(), part.buffer.len());
            }
            (None, None) => {
                return Err(Error::invalid(format!(
                    "output '{}' has neither 'data' nor 'binary_data_size'",
                    part.name
                )));
            }
        }
        Ok(part)
    }

    fn target<'t>(&self, name: &'t str, datatype: Datatype, shape: &'t [usize], base64: bool) -> Target<'t> {
        // Servers that write strict JSON have `null` for NaN and infinities.
        Target { name, datatype, shape, base64, null_is_nan: true, max_depth: self.limits.max_depth }
    }

    fn parameters(&self, reader: &mut Reader<'_>, outer: usize) -> Result<Parameters> {
        parameters::read_plain(reader, Skip { max_depth: self.limits.max_depth, outer, non_finite: true })
    }

    fn skip(&self, reader: &mut Reader<'_>, outer: usize) -> Result<()> {
        reader.skip(Skip { max_depth: self.limits.max_depth, outer, non_finite: true })?;
        Ok(())
    }
}

fn binary_size(parameters: &Parameters) -> Result<Option<usize>> {
    let Some((_, value)) = parameters.iter().find(|(name, _)| name == "binary_data_size") else { return Ok(None) };
    match value {
        Parameter::Int(size) => usize::try_from(*size).ok(),
        _ => None,
    }
    .map(Some)
    .ok_or_else(|| Error::invalid("'binary_data_size' is not a size"))
}

fn check_size(part: &Part, size: usize) -> Result<()> {
    match byte_size(part.datatype, &part.shape)? {
        Some(expected) if expected != size => Err(Error::invalid(format!(
            "output '{}' has 'binary_data_size' {size}, datatype {} and shape {:?} take {expected}",
            part.name,
            part.datatype,
            part.shape.as_slice()
        ))),
        _ => Ok(()),
    }
}

mod members;
use members::{read_shape, text_or_null};

#[cfg(test)]
mod tests;
