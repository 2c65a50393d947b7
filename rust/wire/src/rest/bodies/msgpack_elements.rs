//! Elements of msgpack lists, as the bytes of a tensor. It accepts the same elements as JSON.

use super::msgpack_reader::{Item, Reader};
use crate::json::element::accepted;
use half::{bf16, f16};
use penstock_core::{AlignedBuffer, Datatype, ElementKind, Error, Result, aligned_with_capacity, bytes_tensor};

/// Tensor whose elements are read.
#[derive(Clone, Copy)]
pub(super) struct Target<'t> {
    pub(super) name: &'t str,
    pub(super) datatype: Datatype,
    pub(super) shape: &'t [usize],
    /// The number of its elements.
    pub(super) count: usize,
}

/// Reads the array at the reader: flat, or nested as the shape is.
pub(super) fn read(reader: &mut Reader<'_>, target: &Target<'_>) -> Result<AlignedBuffer> {
    let Target { count, shape, .. } = *target;
    let mut ahead = *reader;
    let length = ahead.array("an array for 'data'")?;
    let is_nested = shape.len() > 1 && length > 0 && matches!(ahead.item()?, Item::Array(_));
    // An element has at least one byte: a short body cannot allocate a large buffer.
    if count > reader.remaining() || (!is_nested && length != count && shape.len() <= 1) {
        return Err(wrong_count(target, length));
    }
    let size = target.datatype.size().unwrap_or(bytes_tensor::PREFIX);
    let mut buffer = aligned_with_capacity(count * size);
    if is_nested {
        nested(reader, target, shape, &mut buffer)?;
    } else if length == count || shape.first() == Some(&length) {
        if length != count {
            return Err(wrong_count(target, length));
        }
        flat(reader, target, count, &mut buffer)?;
    } else {
        return Err(wrong_count(target, length));
    }
    Ok(buffer)
}

fn wrong_count(target: &Target<'_>, length: usize) -> Error {
    let Target { name, shape, count, .. } = target;
    Error::invalid(format!("input '{name}' has {length} elements in 'data', shape {shape:?} expects {count}"))
}

fn flat(reader: &mut Reader<'_>, target: &Target<'_>, count: usize, buffer: &mut AlignedBuffer) -> Result<()> {
    if reader.array("an array for 'data'")? != count {
        return Err(ragged(target));
    }
    for _ in 0..count {
        let item = reader.item()?;
        if matches!(item, Item::Array(_)) {
            return Err(ragged(target));
        }
        append(target.datatype, &item, buffer).ok_or_else(|| {
            Error::invalid(format!(
                "input '{}' has {}, {} takes {}",
                target.name,
                item.what(),
                target.datatype,
                accepted(target.datatype)
            ))
        })??;
    }
    Ok(())
}

fn nested(reader: &mut Reader<'_>, target: &Target<'_>, shape: &[usize], buffer: &mut AlignedBuffer) -> Result<()> {
    match shape {
        [] => Err(ragged(target)),
        [length] => flat(reader, target, *length, buffer),
        [length, inner @ ..] => {
            let mut ahead = *reader;
            if !matches!(ahead.item()?, Item::Array(found) if found == *length) {
                return Err(ragged(target));
            }
            *reader = ahead;
            (0..*length).try_for_each(|_| nested(reader, target, inner, buffer))
        }
    }
}

fn ragged(target: &Target<'_>) -> Error {
    Error::invalid(format!(
        "input '{}' has ragged 'data', it must be flat or nested as its shape {:?}",
        target.name, target.shape
    ))
}

/// Appends one element; `None` when the item is not one of the datatype.
fn append(datatype: Datatype, item: &Item<'_>, buffer: &mut AlignedBuffer) -> Option<Result<()>> {
    let size = datatype.size().unwrap_or(0);
    match datatype.kind() {
        ElementKind::Bool => buffer.extend_from_slice(&[boolean(item)?]),
        kind @ (ElementKind::Uint | ElementKind::Int) => {
            let (value, bits) = (integer(item)?, 8 * size as u32);
            let most = 1_i128 << if kind == ElementKind::Int { bits - 1 } else { bits };
            let least = if kind == ElementKind::Int { -most } else { 0 };
            (least..most).contains(&value).then(|| buffer.extend_from_slice(&value.to_le_bytes()[..size]))?;
        }
        ElementKind::Float => append_float(datatype, float(item)?, buffer)?,
        ElementKind::Bytes => {
            let (Item::Str(bytes) | Item::Bin(bytes)) = item else { return None };
            match bytes_tensor::prefix(bytes.len()) {
                Ok(prefix) => buffer.extend_from_slice(&prefix),
                Err(error) => return Some(Err(error)),
            }
            buffer.extend_from_slice(bytes);
        }
    }
    Some(Ok(()))
}

fn append_float(datatype: Datatype, value: f64, buffer: &mut AlignedBuffer) -> Option<()> {
    match datatype {
        Datatype::Fp16 => {
            let narrow = f16::from_f64(value);
            buffer.extend_from_slice(&same_finiteness(value, narrow.is_finite(), narrow.to_le_bytes())?);
        }
        Datatype::Bf16 => {
            let narrow = bf16::from_f64(value);
            buffer.extend_from_slice(&same_finiteness(value, narrow.is_finite(), narrow.to_le_bytes())?);
        }
        Datatype::Fp32 => {
            let narrow = value as f32;
            buffer.extend_from_slice(&same_finiteness(value, narrow.is_finite(), narrow.to_le_bytes())?);
        }
        Datatype::Fp64 => buffer.extend_from_slice(&value.to_le_bytes()),
        _ => return None,
    }
    Some(())
}

/// The bytes of a narrow float, unless it became infinite on the way.
fn same_finiteness<const N: usize>(value: f64, stayed_finite: bool, bytes: [u8; N]) -> Option<[u8; N]> {
    (stayed_finite || !value.is_finite()).then_some(bytes)
}

fn boolean(item: &Item<'_>) -> Option<u8> {
    match item {
        Item::Bool(value) => Some((*value).into()),
        Item::Uint(value @ (0 | 1)) => u8::try_from(*value).ok(),
        _ => None,
    }
}

/// Reads an integer, or a float without a fraction.
fn integer(item: &Item<'_>) -> Option<i128> {
    match item {
        Item::Int(value) => Some((*value).into()),
        Item::Uint(value) => Some((*value).into()),
        Item::Float(value) if value.fract() == 0.0 => Some(*value as i128),
        _ => None,
    }
}

fn float(item: &Item<'_>) -> Option<f64> {
    match item {
        Item::Int(value) => Some(*value as f64),
        Item::Uint(value) => Some(*value as f64),
        Item::Float(value) => Some(*value),
        _ => None,
    }
}
