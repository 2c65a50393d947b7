//! One element of a tensor's `data`, from JSON to the bytes of the tensor.

use super::{
    fault::SyntaxError,
    reader::{Reader, Skip},
};
use super::{
    float::{self, HalfFormat},
    number::{self, ShortDecimal},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use penstock_core::{AlignedBuffer, Datatype, ElementKind, Error, bytes_tensor};
use std::borrow::Cow;

/// Error in a tensor's data.
pub(crate) enum ElementError {
    /// It is not JSON.
    Syntax(SyntaxError),
    /// The element at this byte is not one of the datatype.
    Element(usize),
    /// The string at this byte is not base64.
    Base64(usize),
    /// The lengths are not the shape's, seen at this byte.
    Lengths(usize),
    /// Found by a check of core.
    Other(Error),
}

impl From<SyntaxError> for ElementError {
    fn from(fault: SyntaxError) -> Self {
        Self::Syntax(fault)
    }
}

pub(crate) type Read<T> = std::result::Result<T, ElementError>;

/// An FP32.
#[inline(always)]
pub(crate) fn single(reader: &mut Reader<'_>) -> Read<[u8; 4]> {
    let at = reader.at();
    if let Some(short) = reader.short() {
        if let Some(value) = float::short_to_f32(&short) {
            return Ok(value.to_le_bytes());
        }
        reader.seek(at);
    }
    let value = match reader.number() {
        Some((decimal, text)) => {
            let value = float::to_f32(&decimal, text);
            if value.is_infinite() {
                return Err(ElementError::Element(at));
            }
            value
        }
        None => non_finite(reader)?,
    };
    Ok(value.to_le_bytes())
}

/// An FP64.
#[inline(always)]
pub(crate) fn double(reader: &mut Reader<'_>) -> Read<[u8; 8]> {
    let at = reader.at();
    if let Some(short) = reader.short() {
        return Ok(float::short_to_f64(&short).to_le_bytes());
    }
    let value = match reader.number() {
        Some((decimal, text)) => {
            let value = float::to_f64(&decimal, text);
            if value.is_infinite() {
                return Err(ElementError::Element(at));
            }
            value
        }
        None => f64::from(non_finite(reader)?),
    };
    Ok(value.to_le_bytes())
}

/// An FP16 or BF16.
pub(crate) fn narrow(reader: &mut Reader<'_>, format: HalfFormat) -> Read<[u8; 2]> {
    let at = reader.at();
    let bits = match reader.number() {
        Some((decimal, text)) => format.nearest(&decimal, text).ok_or(ElementError::Element(at))?,
        None => {
            let value = non_finite(reader)?;
            let magnitude = if value.is_nan() { format.nan() } else { format.infinity() };
            magnitude | u16::from(value < 0.0) << 15
        }
    };
    Ok(bits.to_le_bytes())
}

/// An integer of any width, written as one or as a float without a fraction.
#[inline(always)]
pub(crate) fn integer<T: TryFrom<i128> + TryFrom<i64>>(reader: &mut Reader<'_>) -> Read<T> {
    let at = reader.at();
    if let Some(ShortDecimal { negative, mantissa, places: 0 }) = reader.short() {
        return T::try_from(if negative { -mantissa } else { mantissa }).map_err(|_| ElementError::Element(at));
    }
    reader.seek(at);
    let Some((decimal, text)) = reader.number() else { return Err(wrong_element(*reader)) };
    number::integer(&decimal, text).and_then(|value| T::try_from(value).ok()).ok_or(ElementError::Element(at))
}

/// A BOOL: one byte.
pub(crate) fn boolean(reader: &mut Reader<'_>) -> Read<[u8; 1]> {
    if reader.word("true") {
        return Ok([1]);
    }
    if reader.word("false") {
        return Ok([0]);
    }
    let at = reader.at();
    let value: u8 = integer(reader)?;
    if value > 1 { Err(ElementError::Element(at)) } else { Ok([value]) }
}

/// Appends the string at the reader as a framed element.
pub(crate) fn append_string(reader: &mut Reader<'_>, buffer: &mut AlignedBuffer, base64: bool) -> Read<()> {
    let at = reader.at();
    if reader.peek() != Some(b'"') {
        return Err(wrong_element(*reader));
    }
    let raw = reader.string("a string")?;
    let start = buffer.len();
    buffer.extend_from_slice(&[0; bytes_tensor::PREFIX]);
    if base64 {
        let bytes = STANDARD.decode(raw.bytes()?).map_err(|_| ElementError::Base64(at))?;
        buffer.extend_from_slice(&bytes);
    } else {
        raw.parts(|part| buffer.extend_from_slice(part))?;
    }
    let length = buffer.len() - start - bytes_tensor::PREFIX;
    let prefix = bytes_tensor::prefix(length).map_err(ElementError::Other)?;
    buffer[start..start + bytes_tensor::PREFIX].copy_from_slice(&prefix);
    Ok(())
}

/// Reads a non-finite token, or returns the error of the element.
#[inline(always)]
fn non_finite(reader: &mut Reader<'_>) -> Read<f32> {
    let (value, after) = not_a_number(*reader)?;
    *reader = after;
    Ok(value)
}

#[cold]
fn not_a_number(mut reader: Reader<'_>) -> Read<(f32, Reader<'_>)> {
    let value = reader.non_finite().ok_or_else(|| wrong_element(reader))?;
    Ok((value, reader))
}

/// An element of another type if it is JSON at all.
#[cold]
fn wrong_element(mut reader: Reader<'_>) -> ElementError {
    let at = reader.at();
    match reader.peek() {
        Some(b'[') => ElementError::Lengths(at),
        Some(b'"' | b't' | b'f' | b'n' | b'{' | b'-' | b'0'..=b'9' | b'N' | b'I') => {
            match reader.skip(Skip { max_depth: 64, outer: 0, non_finite: true }) {
                Ok(_) => ElementError::Element(at),
                Err(fault) => ElementError::Syntax(fault),
            }
        }
        _ => ElementError::Syntax(reader.fault("an element")),
    }
}

/// Consumer of the parser that a datatype's elements have: one `match` over datatypes serves every kind of array.
pub(crate) trait Visitor {
    type Output;

    /// Elements of `N` bytes.
    fn fixed<const N: usize>(self, parse: impl Fn(&mut Reader<'_>) -> Read<[u8; N]>) -> Self::Output;

    /// BYTES.
    fn strings(self) -> Self::Output;
}

/// Calls `visitor` with the parser of a datatype's elements.
#[inline(always)]
pub(crate) fn visit<V: Visitor>(datatype: Datatype, visitor: V) -> V::Output {
    match datatype {
        Datatype::Bool => visitor.fixed(boolean),
        Datatype::Uint8 => visitor.fixed(|reader| integer(reader).map(u8::to_le_bytes)),
        Datatype::Uint16 => visitor.fixed(|reader| integer(reader).map(u16::to_le_bytes)),
        Datatype::Uint32 => visitor.fixed(|reader| integer(reader).map(u32::to_le_bytes)),
        Datatype::Uint64 => visitor.fixed(|reader| integer(reader).map(u64::to_le_bytes)),
        Datatype::Int8 => visitor.fixed(|reader| integer(reader).map(i8::to_le_bytes)),
        Datatype::Int16 => visitor.fixed(|reader| integer(reader).map(i16::to_le_bytes)),
        Datatype::Int32 => visitor.fixed(|reader| integer(reader).map(i32::to_le_bytes)),
        Datatype::Int64 => visitor.fixed(|reader| integer(reader).map(i64::to_le_bytes)),
        Datatype::Fp16 => visitor.fixed(|reader| narrow(reader, HalfFormat::FP16)),
        Datatype::Bf16 => visitor.fixed(|reader| narrow(reader, HalfFormat::BF16)),
        Datatype::Fp32 => visitor.fixed(single),
        Datatype::Fp64 => visitor.fixed(double),
        Datatype::Bytes => visitor.strings(),
    }
}

/// Description of the elements that a datatype accepts, for errors.
pub(crate) fn accepted(datatype: Datatype) -> Cow<'static, str> {
    let bits = 8 * datatype.size().unwrap_or(0);
    let most = match (datatype.kind(), datatype) {
        (ElementKind::Bool, _) => return "true, false, 0 or 1".into(),
        (ElementKind::Bytes, _) => return "strings".into(),
        (ElementKind::Uint, _) => return format!("integers from 0 to {}", u64::MAX >> (64 - bits)).into(),
        (ElementKind::Int, _) => {
            return format!("integers from {} to {}", i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)).into();
        }
        (_, Datatype::Fp16) => "65504",
        (_, Datatype::Bf16) => "3.3895314e38",
        (_, Datatype::Fp32) => "3.4028235e38",
        _ => "1.7976931348623157e308",
    };
    format!("numbers up to {most}, NaN, Infinity and -Infinity").into()
}
