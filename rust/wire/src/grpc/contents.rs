//! Typed tensor contents: an encoded `InferTensorContents` to the tensor's own bytes, without a vector in between.

use super::protobuf::{Fields, Malformed, Value, count_varints, packed};
use crate::shared_memory::RegionSlice;
use bytes::Bytes;
use penstock_core::{
    AlignedBuffer, Datatype, ElementKind, Error, Result, Shape, aligned_with_capacity, aligned_zeroed, bytes_tensor,
};
use std::num::TryFromIntError;

/// Header of a tensor, checked against the model.
pub(super) struct TensorHeader {
    pub(super) index: usize,
    pub(super) datatype: Datatype,
    pub(super) shape: Shape,
    /// Elements of the shape.
    pub(super) count: usize,
    /// Location of the elements in shared memory, if they are there.
    pub(super) span: Option<RegionSlice>,
}

/// Form of a field's elements on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Varint,
    /// Numbers of so many bytes, the lowest first.
    Fixed(usize),
    Bytes,
}

/// A field of `InferTensorContents`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Field {
    number: u64,
    name: &'static str,
    form: Form,
}

/// The fields by their numbers, which begin at 1.
const FIELDS: [Field; 8] = [
    Field { number: 1, name: "bool_contents", form: Form::Varint },
    Field { number: 2, name: "int_contents", form: Form::Varint },
    Field { number: 3, name: "int64_contents", form: Form::Varint },
    Field { number: 4, name: "uint_contents", form: Form::Varint },
    Field { number: 5, name: "uint64_contents", form: Form::Varint },
    Field { number: 6, name: "fp32_contents", form: Form::Fixed(4) },
    Field { number: 7, name: "fp64_contents", form: Form::Fixed(8) },
    Field { number: 8, name: "bytes_contents", form: Form::Bytes },
];

/// The field that holds a datatype's elements; `None` for datatypes that are only sent raw.
fn field(datatype: Datatype) -> Option<Field> {
    let number = match (datatype.kind(), datatype.size()) {
        (ElementKind::Bool, _) => 1,
        (ElementKind::Int, Some(8)) => 3,
        (ElementKind::Int, _) => 2,
        (ElementKind::Uint, Some(8)) => 5,
        (ElementKind::Uint, _) => 4,
        (ElementKind::Float, Some(4)) => 6,
        (ElementKind::Float, Some(8)) => 7,
        (ElementKind::Bytes, _) => 8,
        (ElementKind::Float, _) => return None,
    };
    known(number)
}

/// Reads the elements of tensor `name` into its buffer.
///
/// # Errors
/// `InvalidInput` for elements in the field of another datatype, for another count than the shape's, and for bytes that
/// are not an `InferTensorContents`.
pub(super) fn buffer(name: &str, header: &TensorHeader, contents: &[Bytes]) -> Result<AlignedBuffer> {
    let counts = counts(name, contents)?;
    check_field(name, header, &counts)?;
    let Some(field) = field(header.datatype) else { return Ok(aligned_with_capacity(0)) };
    let reader = Reader { name, header, contents, field };
    match (header.datatype.kind(), header.datatype.size()) {
        (ElementKind::Bool, _) => reader.numbers(|value| Ok([u8::from(value != 0)])),
        (ElementKind::Int, Some(1)) => reader.numbers(|value| Ok(i8::try_from(value as i32)?.to_le_bytes())),
        (ElementKind::Int, Some(2)) => reader.numbers(|value| Ok(i16::try_from(value as i32)?.to_le_bytes())),
        (ElementKind::Uint, Some(1)) => reader.numbers(|value| Ok(u8::try_from(value as u32)?.to_le_bytes())),
        (ElementKind::Uint, Some(2)) => reader.numbers(|value| Ok(u16::try_from(value as u32)?.to_le_bytes())),
        (ElementKind::Int | ElementKind::Uint, Some(4)) => reader.numbers(|value| Ok((value as u32).to_le_bytes())),
        (ElementKind::Int | ElementKind::Uint, _) => reader.numbers(|value| Ok(value.to_le_bytes())),
        (ElementKind::Float, _) => reader.fixed(),
        (ElementKind::Bytes, _) => reader.framed(),
    }
}

/// Returns whether any of the known fields has an element.
///
/// # Errors
/// `InvalidInput` for bytes that are not an `InferTensorContents`.
pub(super) fn is_filled(name: &str, contents: &[Bytes]) -> Result<bool> {
    Ok(counts(name, contents)? != [0; FIELDS.len()])
}

/// The number of elements in each of [`FIELDS`].
fn counts(name: &str, contents: &[Bytes]) -> Result<[usize; FIELDS.len()]> {
    let mut counts = [0; FIELDS.len()];
    for field in contents.iter().flat_map(|part| Fields(part)) {
        let (number, value) = field.map_err(|detail| malformed(name, detail))?;
        let Some(field) = known(number) else { continue };
        counts[number as usize - 1] += match (field.form, value) {
            (Form::Varint, Value::Varint(_)) | (Form::Bytes, Value::Bytes(_)) => 1,
            (Form::Varint, Value::Bytes(packed)) => count_varints(packed),
            (Form::Fixed(size), Value::Fixed(one)) if one.len() == size => 1,
            (Form::Fixed(size), Value::Bytes(packed)) if packed.len().is_multiple_of(size) => packed.len() / size,
            _ => return Err(malformed(name, "a field has the wire type of another")),
        };
    }
    Ok(counts)
}

fn known(number: u64) -> Option<Field> {
    FIELDS.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}

fn malformed(name: &str, detail: Malformed) -> Error {
    Error::invalid(format!("the contents of tensor '{name}' are not an InferTensorContents: {detail}"))
}

/// Checks that the elements are in the datatype's field, all of them, and in no other.
fn check_field(name: &str, header: &TensorHeader, counts: &[usize; FIELDS.len()]) -> Result<()> {
    let TensorHeader { datatype, count, .. } = *header;
    let mut filled = FIELDS.iter().zip(counts).filter(|&(_, &count)| count > 0);
    let expected = field(datatype);
    let wanted =
        || expected.map_or_else(|| "raw_input_contents".to_owned(), |field| format!("contents.{}", field.name));
    let Some((given, &len)) = filled.next() else {
        if count == 0 {
            return Ok(());
        }
        return Err(Error::invalid(format!(
            "input '{name}' has no data, expected {count} elements of {datatype} in {}",
            if expected.is_some() { format!("{} or raw_input_contents", wanted()) } else { wanted() }
        )));
    };
    if let Some((second, _)) = filled.next() {
        return Err(Error::invalid(format!(
            "input '{name}' of datatype {datatype} has elements in contents.{} and contents.{}, expected only {}",
            given.name,
            second.name,
            wanted()
        )));
    }
    if expected != Some(*given) {
        return Err(Error::invalid(format!(
            "input '{name}' of datatype {datatype} has elements in contents.{}, expected {}",
            given.name,
            wanted()
        )));
    }
    if len != count {
        return Err(Error::invalid(format!(
            "input '{name}' has {len} elements in contents.{}, expected {count} for shape {:?}",
            given.name,
            header.shape.as_slice()
        )));
    }
    Ok(())
}

/// Reader of one field, whose count is checked already.
struct Reader<'a> {
    name: &'a str,
    header: &'a TensorHeader,
    contents: &'a [Bytes],
    field: Field,
}

impl<'a> Reader<'a> {
    /// Calls `each` with the values of the field, in their order.
    fn values(&self, mut each: impl FnMut(Value<'a>) -> Result<()>) -> Result<()> {
        for field in self.contents.iter().flat_map(|part| Fields(part)) {
            let (number, value) = field.map_err(|detail| malformed(self.name, detail))?;
            if number == self.field.number {
                each(value)?;
            }
        }
        Ok(())
    }

    /// Varints as numbers of `N` bytes.
    fn numbers<const N: usize>(
        &self,
        bytes: impl Fn(u64) -> std::result::Result<[u8; N], TryFromIntError>,
    ) -> Result<AlignedBuffer> {
        let mut buffer = aligned_zeroed(self.header.count * N);
        let mut slots = buffer.chunks_exact_mut(N).enumerate();
        let mut put = |value: u64| {
            let Some((index, slot)) = slots.next() else { return Ok(()) };
            slot.copy_from_slice(&bytes(value).map_err(|_| self.unfit(index, value))?);
            Ok(())
        };
        self.values(|value| match value {
            Value::Varint(value) => put(value),
            Value::Bytes(varints) => {
                packed(varints).try_for_each(|value| put(value.map_err(|detail| malformed(self.name, detail))?))
            }
            Value::Fixed(_) => Ok(()),
        })?;
        Ok(buffer)
    }

    fn unfit(&self, index: usize, value: u64) -> Error {
        let (name, datatype) = (self.name, self.header.datatype);
        let value = match datatype {
            datatype if datatype.kind() == ElementKind::Uint => i64::from(value as u32),
            _ => i64::from(value as i32),
        };
        Error::invalid(format!("element {index} of input '{name}' is {value}, expected a value that fits {datatype}"))
    }

    /// Reads numbers that have the tensor's layout.
    fn fixed(&self) -> Result<AlignedBuffer> {
        let mut buffer = aligned_with_capacity(self.header.count * self.header.datatype.size().unwrap_or(0));
        self.values(|value| {
            if let Value::Fixed(numbers) | Value::Bytes(numbers) = value {
                buffer.extend_from_slice(numbers);
            }
            Ok(())
        })?;
        Ok(buffer)
    }

    /// Elements of BYTES, each behind its length.
    fn framed(&self) -> Result<AlignedBuffer> {
        let mut size = 0;
        self.values(|value| {
            if let Value::Bytes(element) = value {
                size += bytes_tensor::PREFIX + element.len();
            }
            Ok(())
        })?;
        let mut buffer = aligned_with_capacity(size);
        self.values(|value| {
            if let Value::Bytes(element) = value {
                buffer.extend_from_slice(&bytes_tensor::prefix(element.len())?);
                buffer.extend_from_slice(element);
            }
            Ok(())
        })?;
        Ok(buffer)
    }
}
