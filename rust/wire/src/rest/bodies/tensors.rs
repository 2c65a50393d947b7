//! Decoded inputs, and outputs to encode.

use crate::Limits;
use bytes::Bytes;
use penstock_core::{
    AlignedBuffer, BodyChunks, Buffer, Datatype, Error, ModelSpec, Result, Shape, Tensor, TensorSpec,
    aligned_with_capacity, byte_size,
    copies::{self, Step},
    element_count,
};

/// The inputs of a request as they are decoded.
pub(super) struct Inputs<'s> {
    pub(super) spec: &'s ModelSpec,
    pub(super) limits: Limits,
    tensors: Vec<(usize, Tensor)>,
}

impl<'s> Inputs<'s> {
    pub(super) fn new(spec: &'s ModelSpec, limits: Limits) -> Self {
        Self { spec, limits, tensors: Vec::new() }
    }

    /// Returns the index of an input that is not decoded yet.
    pub(super) fn index(&self, name: &str) -> Result<usize> {
        let index = self.spec.input_index(name)?;
        if self.tensors.iter().any(|(known, _)| *known == index) {
            return Err(Error::invalid(format!("input '{name}' is given twice")));
        }
        Ok(index)
    }

    /// The declaration of an input.
    pub(super) fn declared(&self, index: usize) -> &'s TensorSpec {
        &self.spec.inputs[index]
    }

    /// Checks datatype and shape of an input before its buffer is allocated; returns the number of elements.
    pub(super) fn check(&self, index: usize, datatype: Datatype, shape: &[usize]) -> Result<usize> {
        self.spec.check_input(index, datatype, shape)?;
        element_count(shape).map_err(|error| self.with_input_name(index, &error))
    }

    /// Adds an input whose elements have the tensor's layout in `data`.
    pub(super) fn copy(&mut self, index: usize, datatype: Datatype, shape: Shape, data: &[u8]) -> Result<()> {
        self.check(index, datatype, &shape)?;
        let expected = byte_size(datatype, &shape).map_err(|error| self.with_input_name(index, &error))?;
        // Only what fits is copied; the rest is for the tensor to refuse.
        let mut buffer =
            aligned_with_capacity(if expected.is_none_or(|size| size == data.len()) { data.len() } else { 0 });
        if expected.is_some_and(|size| size != data.len()) {
            let error = Error::invalid(format!(
                "got {} bytes, expected {} for datatype {datatype} and shape {:?}",
                data.len(),
                expected.unwrap_or(0),
                shape.as_slice()
            ));
            return Err(self.with_input_name(index, &error));
        }
        buffer.extend_from_slice(data);
        copies::count(Step::Receive, data.len());
        self.put(index, datatype, shape, buffer)
    }

    /// Adds an input whose elements are in place.
    pub(super) fn put(&mut self, index: usize, datatype: Datatype, shape: Shape, buffer: AlignedBuffer) -> Result<()> {
        let tensor = Tensor::new(datatype, shape, Buffer::Aligned(buffer))
            .map_err(|error| self.with_input_name(index, &error))?;
        self.tensors.push((index, tensor));
        Ok(())
    }

    /// Adds the input's name to an error.
    pub(super) fn with_input_name(&self, index: usize, error: &Error) -> Error {
        Error::new(error.kind(), format!("input '{}': {}", self.spec.inputs[index].name, error.message()))
    }

    pub(super) fn finish(self) -> Vec<(usize, Tensor)> {
        self.tensors
    }
}

/// An output to be sent.
pub(super) struct Output<'r> {
    pub(super) spec: &'r TensorSpec,
    pub(super) tensor: &'r Tensor,
}

/// Tensors of at least this size are sent without a copy; smaller ones are joined.
const OWN_CHUNK: usize = 16 << 10;

/// A body under construction: headers, and tensors.
#[derive(Default)]
pub(super) struct BodyWriter {
    pub(super) out: Vec<u8>,
    chunks: BodyChunks,
}

impl BodyWriter {
    /// Appends a tensor's bytes.
    pub(super) fn tensor(&mut self, buffer: &Buffer) {
        match buffer {
            Buffer::Shared(bytes) if bytes.len() >= OWN_CHUNK => {
                if !self.out.is_empty() {
                    self.chunks.push(Bytes::from(std::mem::take(&mut self.out)));
                }
                self.chunks.push(bytes.clone());
            }
            _ => {
                copies::count(Step::Encode, buffer.len());
                self.out.extend_from_slice(buffer.as_slice());
            }
        }
    }

    pub(super) fn finish(mut self) -> BodyChunks {
        if !self.out.is_empty() {
            self.chunks.push(Bytes::from(self.out));
        }
        self.chunks
    }
}
