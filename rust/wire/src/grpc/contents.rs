//! Typed tensor contents: protobuf's numbers to the tensor's own bytes.

use super::decode::Header;
use crate::generated::inference::InferTensorContents;
use bytes::Bytes;
use penstock_core::{AlignedBuffer, Datatype, Error, Result, aligned_with_capacity, aligned_zeroed, bytes_tensor};
use std::fmt::Display;

/// The elements of input `name` as the buffer of its tensor.
pub(super) fn buffer(name: &str, header: &Header, contents: InferTensorContents) -> Result<AlignedBuffer> {
    check_field(name, header, &contents)?;
    let datatype = header.datatype;
    match datatype {
        Datatype::Bool => Ok(numbers(&contents.bool_contents, |value| [u8::from(value)])),
        Datatype::Int8 => narrow(name, datatype, &contents.int_contents, i8::to_le_bytes),
        Datatype::Int16 => narrow(name, datatype, &contents.int_contents, i16::to_le_bytes),
        Datatype::Int32 => Ok(numbers(&contents.int_contents, i32::to_le_bytes)),
        Datatype::Int64 => Ok(numbers(&contents.int64_contents, i64::to_le_bytes)),
        Datatype::Uint8 => narrow(name, datatype, &contents.uint_contents, u8::to_le_bytes),
        Datatype::Uint16 => narrow(name, datatype, &contents.uint_contents, u16::to_le_bytes),
        Datatype::Uint32 => Ok(numbers(&contents.uint_contents, u32::to_le_bytes)),
        Datatype::Uint64 => Ok(numbers(&contents.uint64_contents, u64::to_le_bytes)),
        Datatype::Fp32 => Ok(numbers(&contents.fp32_contents, f32::to_le_bytes)),
        Datatype::Fp64 => Ok(numbers(&contents.fp64_contents, f64::to_le_bytes)),
        Datatype::Bytes => framed(&contents.bytes_contents),
        // Checked above: they have no field, so there are no elements.
        Datatype::Fp16 | Datatype::Bf16 => Ok(aligned_with_capacity(0)),
    }
}

/// The field that holds a datatype's elements; `None` for those that only travel raw.
fn field(datatype: Datatype) -> Option<&'static str> {
    match datatype {
        Datatype::Bool => Some("bool_contents"),
        Datatype::Int8 | Datatype::Int16 | Datatype::Int32 => Some("int_contents"),
        Datatype::Int64 => Some("int64_contents"),
        Datatype::Uint8 | Datatype::Uint16 | Datatype::Uint32 => Some("uint_contents"),
        Datatype::Uint64 => Some("uint64_contents"),
        Datatype::Fp32 => Some("fp32_contents"),
        Datatype::Fp64 => Some("fp64_contents"),
        Datatype::Bytes => Some("bytes_contents"),
        Datatype::Fp16 | Datatype::Bf16 => None,
    }
}

/// Checks that the elements are in the datatype's field, all of them, and in no other.
fn check_field(name: &str, header: &Header, contents: &InferTensorContents) -> Result<()> {
    let Header { datatype, count, .. } = *header;
    let filled = [
        ("bool_contents", contents.bool_contents.len()),
        ("int_contents", contents.int_contents.len()),
        ("int64_contents", contents.int64_contents.len()),
        ("uint_contents", contents.uint_contents.len()),
        ("uint64_contents", contents.uint64_contents.len()),
        ("fp32_contents", contents.fp32_contents.len()),
        ("fp64_contents", contents.fp64_contents.len()),
        ("bytes_contents", contents.bytes_contents.len()),
    ];
    let mut filled = filled.into_iter().filter(|&(_, len)| len > 0);
    let expected = field(datatype);
    let wanted = || expected.map_or_else(|| "raw_input_contents".to_owned(), |field| format!("contents.{field}"));
    let Some((given, len)) = filled.next() else {
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
            "input '{name}' of datatype {datatype} has elements in contents.{given} and contents.{second}, expected only {}",
            wanted()
        )));
    }
    if expected != Some(given) {
        return Err(Error::invalid(format!(
            "input '{name}' of datatype {datatype} has elements in contents.{given}, expected {}",
            wanted()
        )));
    }
    if len != count {
        return Err(Error::invalid(format!(
            "input '{name}' has {len} elements in contents.{given}, expected {count} for shape {:?}",
            header.shape.as_slice()
        )));
    }
    Ok(())
}

fn numbers<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N]) -> AlignedBuffer {
    let mut buffer = aligned_zeroed(values.len() * N);
    for (slot, &value) in buffer.chunks_exact_mut(N).zip(values) {
        slot.copy_from_slice(&bytes(value));
    }
    buffer
}

/// As [`numbers`], for datatypes narrower than their field.
fn narrow<Wide, Narrow, const N: usize>(
    name: &str,
    datatype: Datatype,
    values: &[Wide],
    bytes: fn(Narrow) -> [u8; N],
) -> Result<AlignedBuffer>
where
    Wide: Copy + Display,
    Narrow: TryFrom<Wide>,
{
    let mut buffer = aligned_zeroed(values.len() * N);
    for (index, (slot, &value)) in buffer.chunks_exact_mut(N).zip(values).enumerate() {
        let narrowed = Narrow::try_from(value).map_err(|_| {
            Error::invalid(format!(
                "element {index} of input '{name}' is {value}, expected a value that fits {datatype}"
            ))
        })?;
        slot.copy_from_slice(&bytes(narrowed));
    }
    Ok(buffer)
}

fn framed(elements: &[Bytes]) -> Result<AlignedBuffer> {
    let size = elements.iter().map(|element| bytes_tensor::PREFIX + element.len()).sum();
    let mut buffer = aligned_with_capacity(size);
    for element in elements {
        buffer.extend_from_slice(&bytes_tensor::prefix(element.len())?);
        buffer.extend_from_slice(element);
    }
    Ok(buffer)
}
