//! One input's values: nested JSON appended to the tensor's buffer. The shape is found while reading.

use crate::{
    Limits,
    json::{
        element::{self, ElementError, Read, Visitor},
        fault::Scan,
        reader::{Reader, Skip},
        target::{Target, describe},
    },
};
use penstock_core::{
    AlignedBuffer, Buffer, Error, ModelSpec, Result, Shape, Tensor, TensorSpec, aligned_with_capacity, bytes_tensor,
};
use smallvec::SmallVec;

/// Levels of the body around a value: the body, its list, and perhaps an object of inputs.
const LEVELS: usize = 3;

/// The values of one input so far.
#[derive(Debug)]
pub(crate) struct Column<'s> {
    model: &'s ModelSpec,
    spec: &'s TensorSpec,
    limits: &'s Limits,
    index: usize,
    /// The sizes of a value's axes: declared, or else found in the first value.
    axes: SmallVec<[Option<usize>; 4]>,
    buffer: AlignedBuffer,
    /// Number of values read.
    pub(super) count: usize,
}

impl<'s> Column<'s> {
    /// The column of input `index`. `with_batch` is whether the values have the batch axis themselves.
    pub(crate) fn new(model: &'s ModelSpec, limits: &'s Limits, index: usize, with_batch: bool) -> Self {
        let spec = &model.inputs[index];
        let axes = with_batch.then_some(None).into_iter().chain(spec.dims.iter().copied()).collect();
        Self { model, spec, limits, index, axes, buffer: aligned_with_capacity(0), count: 0 }
    }

    /// Its declaration.
    pub(crate) fn spec(&self) -> &'s TensorSpec {
        self.spec
    }

    /// Reads one value.
    ///
    /// # Errors
    /// `InvalidInput` that names the input, what it got and what it expects.
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        reader.peek();
        let start = reader.at();
        match self.values(reader, 0) {
            Ok(()) => {
                self.count += 1;
                Ok(())
            }
            Err(flaw) => Err(self.describe(flaw, reader, start)),
        }
    }

    /// Returns the tensor of all values, along a batch axis of `batch` rows if set.
    ///
    /// # Errors
    /// `InvalidInput` for a shape that the model does not accept.
    pub(crate) fn finish(self, batch: Option<usize>) -> Result<(usize, Tensor)> {
        let shape: Shape = batch.into_iter().chain(self.axes.iter().map(|axis| axis.unwrap_or(0))).collect();
        let datatype = self.spec.datatype;
        self.model.check_input(self.index, datatype, &shape)?;
        Ok((self.index, Tensor::new(datatype, shape, Buffer::Aligned(self.buffer))?))
    }

    /// Reads the value from `axis` on inwards.
    fn values(&mut self, reader: &mut Reader<'_>, axis: usize) -> Read<()> {
        let inner = self.axes.len() - axis;
        if inner == 0 {
            return self.leaf(reader);
        }
        if reader.peek() != Some(b'[') {
            return Err(ElementError::Lengths(reader.at()));
        }
        let start = reader.at();
        let count =
            if inner == 1 { self.leaves(reader)? } else { items(reader, |reader| self.values(reader, axis + 1))? };
        match *self.axes[axis].get_or_insert(count) {
            expected if expected != count => Err(ElementError::Lengths(start)),
            _ => Ok(()),
        }
    }

    /// Reads an array of elements and returns their count.
    fn leaves(&mut self, reader: &mut Reader<'_>) -> Read<usize> {
        element::visit(self.spec.datatype, LeavesVisitor { column: self, reader })
    }

    /// Reads one element.
    fn leaf(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        reader.peek();
        element::visit(self.spec.datatype, LeafVisitor { column: self, reader })
    }

    #[cold]
    fn describe(&self, flaw: ElementError, reader: &mut Reader<'_>, start: usize) -> Error {
        let Limits { max_depth, .. } = *self.limits;
        let name = &*self.spec.name;
        let ElementError::Lengths(at) = flaw else {
            let target =
                Target { name, datatype: self.spec.datatype, shape: &[], base64: false, null_is_nan: false, max_depth };
            return describe(flaw, reader, &target, start);
        };
        let skip = Skip { max_depth, outer: LEVELS, non_finite: true };
        if let Err(fault) = reader.from(start).skip(skip) {
            return fault.into();
        }
        let Ok(Some(shape)) = measure(&mut reader.from(start), skip) else {
            return Error::invalid(format!(
                "input '{name}' is ragged at byte {at}, all lists of one level must have the same length"
            ));
        };
        let declared = self.axes.len() - self.spec.dims.len();
        let batch = (declared > 0).then_some(-1);
        let expected: Vec<i64> = batch.into_iter().chain(self.spec.wire_shape(false)).collect();
        if self.count > 0 && self.spec.fits(&shape, declared > 0) {
            let before: Vec<usize> = self.axes.iter().map(|axis| axis.unwrap_or(0)).collect();
            return Error::invalid(format!(
                "input '{name}' has shape {shape:?}, the instances before it have {before:?}"
            ));
        }
        Error::invalid(format!("input '{name}' has shape {shape:?}, model '{}' expects {expected:?}", self.model.name))
    }
}

/// Reads an array with the parser of its elements.
struct LeavesVisitor<'a, 's, 'j> {
    column: &'a mut Column<'s>,
    reader: &'a mut Reader<'j>,
}

impl Visitor for LeavesVisitor<'_, '_, '_> {
    type Output = Read<usize>;

    fn fixed<const N: usize>(self, parse: impl Fn(&mut Reader<'_>) -> Read<[u8; N]>) -> Self::Output {
        append(self.reader, &mut self.column.buffer, parse)
    }

    fn strings(self) -> Self::Output {
        items(self.reader, |reader| self.column.leaf(reader))
    }
}

/// Reads one element with its parser.
struct LeafVisitor<'a, 's, 'j> {
    column: &'a mut Column<'s>,
    reader: &'a mut Reader<'j>,
}

impl Visitor for LeafVisitor<'_, '_, '_> {
    type Output = Read<()>;

    fn fixed<const N: usize>(self, parse: impl Fn(&mut Reader<'_>) -> Read<[u8; N]>) -> Self::Output {
        put(&mut self.column.buffer, parse(self.reader)?);
        Ok(())
    }

    fn strings(self) -> Self::Output {
        let Column { spec, limits, buffer, .. } = self.column;
        if spec.document { document(self.reader, buffer, limits.max_depth) } else { bytes(self.reader, buffer) }
    }
}

fn put<const N: usize>(buffer: &mut AlignedBuffer, element: [u8; N]) {
    buffer.extend_from_slice(&element);
}

/// Appends the elements of the array at the reader; how many there are.
#[inline(never)]
fn append<const N: usize>(
    reader: &mut Reader<'_>,
    buffer: &mut AlignedBuffer,
    parse: impl Fn(&mut Reader<'_>) -> Read<[u8; N]>,
) -> Read<usize> {
    // A copy of the reader, which can stay in registers.
    let mut local = *reader;
    let read = items(&mut local, |reader| {
        buffer.extend_from_slice(&parse(reader)?);
        Ok(())
    });
    *reader = local;
    read
}

/// Reads an array from its opening bracket on; how many items it has.
#[inline(always)]
fn items<'a>(reader: &mut Reader<'a>, mut item: impl FnMut(&mut Reader<'a>) -> Read<()>) -> Read<usize> {
    reader.bump();
    let mut count = 0;
    let mut more = reader.item(&mut true)?;
    while more {
        reader.peek();
        item(reader)?;
        count += 1;
        more = reader.next_item()?;
    }
    Ok(count)
}

/// Appends a string, or the bytes of an object `{"b64": text}`.
fn bytes(reader: &mut Reader<'_>, buffer: &mut AlignedBuffer) -> Read<()> {
    let at = reader.at();
    if reader.peek() != Some(b'{') {
        return element::append_string(reader, buffer, false);
    }
    reader.bump();
    let is_base64 = reader.key(&mut true)?.is_some_and(|key| key.bytes().is_ok_and(|key| *key == *b"b64"));
    if is_base64 {
        element::append_string(reader, buffer, true)?;
        if reader.take(b'}') {
            return Ok(());
        }
    }
    Err(ElementError::Element(at))
}

/// Appends the JSON value at the reader as it is written.
fn document(reader: &mut Reader<'_>, buffer: &mut AlignedBuffer, max_depth: usize) -> Read<()> {
    let start = reader.at();
    reader.skip(Skip { max_depth, outer: LEVELS, non_finite: false })?;
    let text = reader.since(start);
    put(buffer, bytes_tensor::prefix(text.len()).map_err(ElementError::Other)?);
    buffer.extend_from_slice(text);
    Ok(())
}

/// The shape of a value; `None` if it is ragged.
fn measure(reader: &mut Reader<'_>, skip: Skip) -> Scan<Option<Shape>> {
    if reader.peek() != Some(b'[') {
        reader.skip(skip)?;
        return Ok(Some(Shape::new()));
    }
    reader.bump();
    let (mut opening, mut count, mut inner) = (true, 0, None::<Shape>);
    while reader.item(&mut opening)? {
        let Some(shape) = measure(reader, skip)? else { return Ok(None) };
        count += 1;
        if *inner.get_or_insert_with(|| shape.clone()) != shape {
            return Ok(None);
        }
    }
    Ok(Some(std::iter::once(count).chain(inner.unwrap_or_default()).collect()))
}
