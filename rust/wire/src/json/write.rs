//! Tensor elements as a flat JSON array.

use super::string;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use half::{bf16, f16};
use penstock_core::{Datatype, ElementKind, Error, Result, Tensor, bytes_tensor};

/// Style of the elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// `null` for numbers that are not finite, which JSON has no words for.
    pub(crate) strict: bool,
    /// BYTES as base64.
    pub(crate) base64: bool,
}

/// Bytes that the elements of a tensor take as text, roughly and seldom too few.
pub(crate) fn estimate(tensor: &Tensor) -> usize {
    let bytes = tensor.as_slice().len();
    2 + match (tensor.datatype().kind(), tensor.datatype().size()) {
        (ElementKind::Bytes, _) => bytes + bytes / 3,
        (ElementKind::Bool, _) | (ElementKind::Float, Some(1 | 2)) => bytes * 6,
        (_, Some(1)) => bytes * 4,
        (_, Some(2 | 4)) => bytes * 3,
        _ => bytes * 5 / 2,
    }
}

/// Appends the elements of the output of that name.
///
/// # Errors
/// `InvalidInput` for a BYTES element that is not text.
pub(crate) fn write(out: &mut Vec<u8>, name: &str, tensor: &Tensor, style: Style) -> Result<()> {
    let bytes = tensor.as_slice();
    out.push(b'[');
    match tensor.datatype() {
        Datatype::Bytes => strings(out, name, bytes, style.base64)?,
        datatype => numbers(out, datatype, bytes, style.strict),
    }
    out.push(b']');
    Ok(())
}

/// Appends elements of any datatype but BYTES, with commas between them.
pub(crate) fn numbers(out: &mut Vec<u8>, datatype: Datatype, bytes: &[u8], strict: bool) {
    let before = out.len();
    match datatype {
        Datatype::Bool => each(out, bytes, |out, [byte]| {
            out.extend_from_slice(if byte == 0 { b"false" } else { b"true" });
        }),
        Datatype::Uint8 => each(out, bytes, |out, element| integer(out, u8::from_le_bytes(element))),
        Datatype::Uint16 => each(out, bytes, |out, element| integer(out, u16::from_le_bytes(element))),
        Datatype::Uint32 => each(out, bytes, |out, element| integer(out, u32::from_le_bytes(element))),
        Datatype::Uint64 => each(out, bytes, |out, element| integer(out, u64::from_le_bytes(element))),
        Datatype::Int8 => each(out, bytes, |out, element| integer(out, i8::from_le_bytes(element))),
        Datatype::Int16 => each(out, bytes, |out, element| integer(out, i16::from_le_bytes(element))),
        Datatype::Int32 => each(out, bytes, |out, element| integer(out, i32::from_le_bytes(element))),
        Datatype::Int64 => each(out, bytes, |out, element| integer(out, i64::from_le_bytes(element))),
        Datatype::Fp16 => each(out, bytes, |out, element| single(out, f16::from_le_bytes(element).to_f32(), strict)),
        Datatype::Bf16 => each(out, bytes, |out, element| single(out, bf16::from_le_bytes(element).to_f32(), strict)),
        Datatype::Fp32 => each(out, bytes, |out, element| single(out, f32::from_le_bytes(element), strict)),
        Datatype::Fp64 => each(out, bytes, |out, element| double(out, f64::from_le_bytes(element), strict)),
        Datatype::Bytes => {}
    }
    drop_comma(out, before);
}

/// Drops the comma after the last element, if there is one.
fn drop_comma(out: &mut Vec<u8>, before: usize) {
    if out.len() > before {
        out.pop();
    }
}

/// Writes every element and a comma after it. Elements need no alignment.
#[inline(always)]
fn each<const N: usize>(out: &mut Vec<u8>, bytes: &[u8], write: impl Fn(&mut Vec<u8>, [u8; N])) {
    for &element in bytes.as_chunks::<N>().0 {
        write(out, element);
        out.push(b',');
    }
}

#[inline(always)]
fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[inline(always)]
fn single(out: &mut Vec<u8>, value: f32, strict: bool) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        non_finite(out, f64::from(value), strict);
    }
}

/// Appends a double, in the shortest text that reads back as the same.
#[inline(always)]
pub(crate) fn double(out: &mut Vec<u8>, value: f64, strict: bool) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        non_finite(out, value, strict);
    }
}

#[cold]
fn non_finite(out: &mut Vec<u8>, value: f64, strict: bool) {
    out.extend_from_slice(match value {
        _ if strict => b"null",
        _ if value.is_nan() => b"NaN",
        _ if value > 0.0 => b"Infinity",
        _ => b"-Infinity",
    });
}

fn strings(out: &mut Vec<u8>, name: &str, bytes: &[u8], base64: bool) -> Result<()> {
    let before = out.len();
    for (index, element) in bytes_tensor::elements(bytes).enumerate() {
        if base64 {
            base64_string(out, element)?;
        } else {
            string::write(out, std::str::from_utf8(element).map_err(|_| not_text(name, index))?);
        }
        out.push(b',');
    }
    drop_comma(out, before);
    Ok(())
}

/// Appends bytes as a string of base64.
pub(crate) fn base64_string(out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    out.push(b'"');
    let start = out.len();
    // The encoder writes into a slice, of the longest length its text can have.
    out.resize(start + bytes.len().div_ceil(3) * 4, b'=');
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    out.truncate(start + written.map_err(|error| Error::new(penstock_core::Kind::Internal, error.to_string()))?);
    out.push(b'"');
    Ok(())
}

#[cold]
fn not_text(name: &str, index: usize) -> Error {
    Error::invalid(format!(
        "element {index} of output '{name}' is not UTF-8 and cannot be sent as JSON, request the output as binary data"
    ))
}
