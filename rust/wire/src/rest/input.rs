//! One input of a request's JSON: read key by key, in whatever order they come.

use super::{
    elements::{self, Target},
    parameters::InputParameters,
    reader::{Reader, Skip},
};
use crate::{Limits, number};
use penstock_core::{
    AlignedBuffer, Datatype, Error, MAX_RANK, ModelSpec, Result, Shape, aligned_with_capacity, byte_size,
};
use smallvec::SmallVec;

/// An input, and as much of its data as is there.
#[derive(Debug)]
pub(super) struct Input {
    /// Its declaration index.
    pub(super) index: usize,
    pub(super) datatype: Datatype,
    pub(super) shape: Shape,
    pub(super) buffer: AlignedBuffer,
    /// How many bytes follow the JSON. No room is made for them yet.
    pub(super) missing: usize,
}

/// The inputs of a request.
pub(super) type Inputs = SmallVec<[Input; 2]>;

/// Reads the object at the reader, the request's next input.
///
/// # Errors
/// `InvalidInput` that names the input, as soon as its name is known.
pub(super) fn read(reader: &mut Reader<'_>, spec: &ModelSpec, limits: &Limits, inputs: &mut Inputs) -> Result<Strings> {
    let mut draft = Draft::new(spec, limits);
    reader.expect(b'{', "an object for each of 'inputs'")?;
    let mut first = true;
    while let Some(key) = reader.key(&mut first)? {
        match &*key.bytes()? {
            b"name" => draft.set_name(reader)?,
            b"datatype" => draft.set_datatype(reader)?,
            b"shape" => draft.set_shape(reader)?,
            b"parameters" => draft.set_parameters(reader)?,
            b"data" => draft.set_data(reader)?,
            _ => drop(reader.skip(Skip { max_depth: limits.max_depth, non_finite: false })?),
        }
    }
    draft.finish(reader, inputs)
}

/// What the strings of an input are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strings {
    Text,
    Base64,
}

/// What of an input has been read.
struct Draft<'s> {
    spec: &'s ModelSpec,
    limits: &'s Limits,
    index: Option<usize>,
    datatype: Option<Datatype>,
    shape: Shape,
    has_shape: bool,
    parameters: InputParameters,
    /// Where `data` begins.
    data_at: Option<usize>,
    /// The elements, once they can be read. What they depend on may come later, or again.
    buffer: Option<AlignedBuffer>,
}

impl<'s> Draft<'s> {
    fn new(spec: &'s ModelSpec, limits: &'s Limits) -> Self {
        let parameters = InputParameters::default();
        let shape = Shape::new();
        Self {
            spec,
            limits,
            index: None,
            datatype: None,
            shape,
            has_shape: false,
            parameters,
            data_at: None,
            buffer: None,
        }
    }

    fn set_name(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let name = reader.string("a string for an input's 'name'")?;
        self.index = Some(self.spec.input_index(&name.text()?)?);
        self.buffer = None;
        Ok(())
    }

    fn set_datatype(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let name = reader.string("a string for an input's 'datatype'")?.text()?;
        self.datatype = Some(Datatype::from_name(&name).ok_or_else(|| unknown_datatype(&name))?);
        self.buffer = None;
        Ok(())
    }

    fn set_shape(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.shape.clear();
        self.has_shape = true;
        self.buffer = None;
        reader.expect(b'[', "an array for 'shape'")?;
        let mut first = true;
        while reader.item(&mut first)? {
            if self.shape.len() == MAX_RANK {
                return Err(reader.fault("at most 32 dimensions in 'shape'").into());
            }
            let at = reader.at();
            let dimension = reader.number().and_then(|(decimal, text)| number::integer(&decimal, text));
            match dimension.map(usize::try_from) {
                Some(Ok(dimension)) => self.shape.push(dimension),
                _ => return Err(reader.from(at).fault("non-negative integers in 'shape'").into()),
            }
        }
        Ok(())
    }

    fn set_parameters(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let parameters = InputParameters::read(reader)?;
        if parameters.base64 != self.parameters.base64 {
            self.buffer = None;
        }
        self.parameters = parameters;
        Ok(())
    }

    /// Reads the elements if all is known that they depend on; else passes over them.
    fn set_data(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        reader.peek();
        self.data_at = Some(reader.at());
        self.buffer = None;
        match (self.index, self.datatype) {
            (Some(index), Some(datatype)) if self.has_shape => {
                self.buffer = Some(self.read_data(reader, index, datatype)?);
            }
            _ => drop(reader.skip(Skip { max_depth: self.limits.max_depth, non_finite: true })?),
        }
        Ok(())
    }

    fn read_data(&self, reader: &mut Reader<'_>, index: usize, datatype: Datatype) -> Result<AlignedBuffer> {
        let shape = &self.shape;
        self.spec.check_input(index, datatype, shape)?;
        let name = &self.spec.inputs[index].name;
        let Limits { max_depth, .. } = *self.limits;
        elements::read(reader, &Target { name, datatype, shape, base64: self.parameters.base64, max_depth })
    }

    /// Adds the input to `inputs`, once its object is closed.
    fn finish(mut self, reader: &mut Reader<'_>, inputs: &mut Inputs) -> Result<Strings> {
        let index = self.index.ok_or_else(|| Error::invalid(format!("'inputs[{}]' has no 'name'", inputs.len())))?;
        let name = &self.spec.inputs[index].name;
        let missing = |key: &str| Error::invalid(format!("input '{name}' has no '{key}'"));
        let datatype = self.datatype.ok_or_else(|| missing("datatype"))?;
        if !self.has_shape {
            return Err(missing("shape"));
        }
        let (buffer, missing) = match (self.data_at, self.parameters.binary_size) {
            (None, None) => {
                return Err(Error::invalid(format!("input '{name}' has neither 'data' nor 'binary_data_size'")));
            }
            (Some(_), Some(_)) => {
                return Err(Error::invalid(format!("input '{name}' has both 'data' and 'binary_data_size'")));
            }
            (None, Some(size)) => {
                self.check_size(index, datatype, size)?;
                (aligned_with_capacity(0), size)
            }
            (Some(at), None) => match self.buffer.take() {
                Some(buffer) => (buffer, 0),
                None => (self.read_data(&mut reader.from(at), index, datatype)?, 0),
            },
        };
        inputs.push(Input { index, datatype, shape: self.shape, buffer, missing });
        let base64 = self.parameters.base64 && datatype == Datatype::Bytes;
        Ok(if base64 { Strings::Base64 } else { Strings::Text })
    }

    /// Checks that `size` bytes are what the shape takes.
    fn check_size(&self, index: usize, datatype: Datatype, size: usize) -> Result<()> {
        let shape = &self.shape;
        self.spec.check_input(index, datatype, shape)?;
        match byte_size(datatype, shape)? {
            Some(expected) if expected != size => Err(Error::invalid(format!(
                "input '{}' has 'binary_data_size' {size}, datatype {datatype} and shape {shape:?} take {expected}",
                self.spec.inputs[index].name
            ))),
            _ => Ok(()),
        }
    }
}

fn unknown_datatype(name: &str) -> Error {
    let known = Datatype::ALL.map(Datatype::name).join(", ");
    Error::invalid(format!("unknown datatype '{name}', expected one of {known}"))
}
