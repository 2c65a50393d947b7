//! Outputs as plain JSON values: nested lists, strings, documents.

use crate::{
    json::{
        reader::{Reader, Skip},
        string, write,
    },
    rest::EncodeOptions,
};
use penstock_core::{Datatype, Error, InferResponse, Kind, ModelSpec, Result, Tensor, TensorSpec, bytes_tensor};
use smallvec::SmallVec;

/// Writes items with commas between them.
pub(crate) fn separated<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T) -> Result<()>,
) -> Result<()> {
    for (position, item) in items.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(out, item)?;
    }
    Ok(())
}

/// Outputs of one response, each at its next row.
pub(crate) struct Writers<'t> {
    each: SmallVec<[Writer<'t>; 2]>,
    /// The model has one output, whose values stand alone.
    alone: bool,
}

impl<'t> Writers<'t> {
    /// Writers at the first rows of a response.
    ///
    /// # Errors
    /// `Internal` when outputs are missing.
    pub(crate) fn new(spec: &'t ModelSpec, response: &'t InferResponse, options: EncodeOptions) -> Result<Self> {
        if response.outputs.len() != spec.outputs.len() {
            return Err(Error::new(Kind::Internal, format!("a response lacks outputs of model '{}'", spec.name)));
        }
        let writer = |(spec, tensor)| Writer::new(spec, tensor, options);
        let there = spec.outputs.iter().zip(&response.outputs).filter(|(_, tensor)| !tensor.is_absent());
        Ok(Self { each: there.map(writer).collect(), alone: spec.outputs.len() == 1 })
    }

    /// The writer of one output.
    pub(crate) fn of_output(spec: &'t TensorSpec, tensor: &'t Tensor, options: EncodeOptions) -> Self {
        Self { each: SmallVec::from_iter([Writer::new(spec, tensor, options)]), alone: true }
    }

    /// Writes the next row of all outputs, or all of them: the value of the only output, or an object by output name.
    ///
    /// BYTES are strings, or `{"b64": text}` if they are not UTF-8 or the output's name ends in `_bytes`.
    ///
    /// # Errors
    /// `Handler` for a document that is not JSON.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, row: bool) -> Result<()> {
        if self.alone {
            return match self.each.as_mut_slice() {
                [only] => only.write(out, row),
                _ => {
                    out.extend_from_slice(b"null");
                    Ok(())
                }
            };
        }
        out.push(b'{');
        separated(out, &mut self.each, |out, writer| {
            string::write(out, &writer.spec.name);
            out.push(b':');
            writer.write(out, row)
        })?;
        out.push(b'}');
        Ok(())
    }
}

/// A tensor of which a part is written.
struct Writer<'t> {
    spec: &'t TensorSpec,
    datatype: Datatype,
    shape: &'t [usize],
    /// The elements that are not written yet.
    rest: &'t [u8],
    strict: bool,
}

impl<'t> Writer<'t> {
    fn new(spec: &'t TensorSpec, tensor: &'t Tensor, options: EncodeOptions) -> Self {
        let (datatype, shape, rest) = (tensor.datatype(), tensor.shape(), tensor.as_slice());
        Self { spec, datatype, shape, rest, strict: options.strict_json }
    }

    fn write(&mut self, out: &mut Vec<u8>, row: bool) -> Result<()> {
        self.nested(out, self.shape.get(usize::from(row)..).unwrap_or_default())
    }

    fn nested(&mut self, out: &mut Vec<u8>, shape: &[usize]) -> Result<()> {
        match *shape {
            [] => self.elements(out, 1),
            [length] => {
                out.push(b'[');
                self.elements(out, length)?;
                out.push(b']');
                Ok(())
            }
            [length, ref inner @ ..] => {
                out.push(b'[');
                separated(out, 0..length, |out, _| self.nested(out, inner))?;
                out.push(b']');
                Ok(())
            }
        }
    }

    /// Writes the next elements, with commas between them.
    fn elements(&mut self, out: &mut Vec<u8>, count: usize) -> Result<()> {
        let length = match self.datatype.size() {
            Some(size) => size * count,
            None => bytes_tensor::offset_after(self.rest, count),
        };
        let (own, rest) = self.rest.split_at_checked(length).unwrap_or_default();
        self.rest = rest;
        if self.datatype == Datatype::Bytes {
            return separated(out, bytes_tensor::elements(own), |out, element| self.bytes(out, element));
        }
        write::numbers(out, self.datatype, own, self.strict);
        Ok(())
    }

    fn bytes(&self, out: &mut Vec<u8>, element: &[u8]) -> Result<()> {
        if self.spec.document {
            return self.document(out, element);
        }
        match std::str::from_utf8(element) {
            Ok(plain) if self.spec.text || !self.spec.name.ends_with("_bytes") => string::write(out, plain),
            _ => {
                out.extend_from_slice(b"{\"b64\":");
                write::base64_string(out, element)?;
                out.push(b'}');
            }
        }
        Ok(())
    }

    /// Writes a document unchanged, after checking that it is JSON.
    fn document(&self, out: &mut Vec<u8>, element: &[u8]) -> Result<()> {
        let mut reader = Reader::new(element);
        let whole = reader.skip(Skip { max_depth: usize::MAX, outer: 0, non_finite: !self.strict });
        if whole.is_err() || reader.peek().is_some() {
            return Err(Error::handler(format!("output '{}' is not a JSON document", self.spec.name)));
        }
        out.extend_from_slice(element);
        Ok(())
    }
}
