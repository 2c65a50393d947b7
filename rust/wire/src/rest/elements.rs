//! A tensor's `data`: JSON numbers, booleans and strings written straight into the tensor's buffer.

use super::reader::{Fault, Reader, Skip};
use crate::{
    float::{self, Narrow},
    number::{self, Short},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use penstock_core::{
    AlignedBuffer, Datatype, Error, Result, aligned_with_capacity, aligned_zeroed, bytes_tensor, element_count,
};

/// What is known of a tensor before its data is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'t> {
    /// The tensor's name, for messages.
    pub(super) name: &'t str,
    /// The type of its elements.
    pub(super) datatype: Datatype,
    /// The sizes of its axes.
    pub(super) shape: &'t [usize],
    /// Whether the strings of a BYTES tensor are base64.
    pub(super) base64: bool,
    /// How deep broken data is looked at, to say what is wrong.
    pub(super) max_depth: usize,
}

/// What is wrong with a tensor's data.
enum Flaw {
    /// It is not JSON.
    Syntax(Fault),
    /// The element at this byte is not one of the datatype.
    Element(usize),
    /// The string at this byte is not base64.
    Base64(usize),
    /// The lengths are not the shape's, seen at this byte.
    Lengths(usize),
    /// Found by a check of core.
    Other(Error),
}

impl From<Fault> for Flaw {
    fn from(fault: Fault) -> Self {
        Self::Syntax(fault)
    }
}

type Read<T> = std::result::Result<T, Flaw>;

/// Reads the array at the reader: flat, or nested as the shape is.
///
/// # Errors
/// `InvalidInput` that names the tensor, and what it got and expected.
pub(super) fn read(reader: &mut Reader<'_>, target: &Target<'_>) -> Result<AlignedBuffer> {
    let count = element_count(target.shape)?;
    let start = match reader.peek() {
        Some(b'[') => reader.at(),
        _ => return Err(Error::invalid(format!("'data' of input '{}' must be an array", target.name))),
    };
    // Every element takes a byte at least: a short body cannot ask for a large buffer.
    let read = if count > reader.remaining() { Err(Flaw::Lengths(start)) } else { read_elements(reader, target, count) };
    read.map_err(|flaw| describe(flaw, reader, target, start))
}

fn read_elements(reader: &mut Reader<'_>, target: &Target<'_>, count: usize) -> Read<AlignedBuffer> {
    let array = Array { shape: target.shape, count };
    match target.datatype {
        Datatype::Bool => fixed(reader, array, boolean),
        Datatype::Uint8 => fixed(reader, array, |reader| integer::<u8>(reader).map(u8::to_le_bytes)),
        Datatype::Uint16 => fixed(reader, array, |reader| integer::<u16>(reader).map(u16::to_le_bytes)),
        Datatype::Uint32 => fixed(reader, array, |reader| integer::<u32>(reader).map(u32::to_le_bytes)),
        Datatype::Uint64 => fixed(reader, array, |reader| integer::<u64>(reader).map(u64::to_le_bytes)),
        Datatype::Int8 => fixed(reader, array, |reader| integer::<i8>(reader).map(i8::to_le_bytes)),
        Datatype::Int16 => fixed(reader, array, |reader| integer::<i16>(reader).map(i16::to_le_bytes)),
        Datatype::Int32 => fixed(reader, array, |reader| integer::<i32>(reader).map(i32::to_le_bytes)),
        Datatype::Int64 => fixed(reader, array, |reader| integer::<i64>(reader).map(i64::to_le_bytes)),
        Datatype::Fp16 => fixed(reader, array, |reader| narrow(reader, Narrow::FP16)),
        Datatype::Bf16 => fixed(reader, array, |reader| narrow(reader, Narrow::BF16)),
        Datatype::Fp32 => fixed(reader, array, single),
        Datatype::Fp64 => fixed(reader, array, double),
        Datatype::Bytes => strings(reader, array, target.base64),
    }
}

/// Where elements go.
trait Sink {
    /// Reads an array of `count` elements, from its opening bracket on.
    fn array(&mut self, reader: &mut Reader<'_>, count: usize) -> Read<()>;
}

/// Elements of `N` bytes, in slots that are there already.
struct Fixed<'b, const N: usize, P> {
    slots: &'b mut [[u8; N]],
    parse: P,
}

impl<const N: usize, P: Fn(&mut Reader<'_>) -> Read<[u8; N]>> Sink for Fixed<'_, N, P> {
    #[inline(never)]
    fn array(&mut self, reader: &mut Reader<'_>, count: usize) -> Read<()> {
        let slots = std::mem::take(&mut self.slots);
        let (own, rest) = slots.split_at_mut(count.min(slots.len()));
        self.slots = rest;
        // A copy of the reader, which can stay in registers.
        let mut local = *reader;
        let read = items(&mut local, own, |reader, slot| {
            *slot = (self.parse)(reader)?;
            Ok(())
        });
        *reader = local;
        read
    }
}

/// Elements that are strings, appended with their lengths.
struct Strings {
    buffer: AlignedBuffer,
    base64: bool,
}

impl Sink for Strings {
    fn array(&mut self, reader: &mut Reader<'_>, count: usize) -> Read<()> {
        items(reader, 0..count, |reader, _| append_string(reader, &mut self.buffer, self.base64))
    }
}

fn fixed<const N: usize>(
    reader: &mut Reader<'_>,
    array: Array<'_>,
    parse: impl Fn(&mut Reader<'_>) -> Read<[u8; N]>,
) -> Read<AlignedBuffer> {
    let mut buffer = aligned_zeroed(array.count * N);
    let slots = buffer.as_chunks_mut::<N>().0;
    array.read(reader, &mut Fixed { slots, parse })?;
    Ok(buffer)
}

fn strings(reader: &mut Reader<'_>, array: Array<'_>, base64: bool) -> Read<AlignedBuffer> {
    // A guess that fits small requests whole; large ones grow.
    let buffer = aligned_with_capacity((reader.remaining() + array.count).min(64 << 10));
    let mut sink = Strings { buffer, base64 };
    array.read(reader, &mut sink)?;
    Ok(sink.buffer)
}

/// The shape that an array is read by, and its number of elements.
#[derive(Clone, Copy)]
struct Array<'t> {
    shape: &'t [usize],
    count: usize,
}

impl Array<'_> {
    /// Reads elements, flat or nested, from the opening bracket on.
    fn read(self, reader: &mut Reader<'_>, sink: &mut impl Sink) -> Read<()> {
        let mut inside = *reader;
        inside.bump();
        if inside.peek() == Some(b'[') && self.shape.len() > 1 {
            return nested(reader, self.shape, sink);
        }
        sink.array(reader, self.count)
    }
}

/// Reads one level of a nested array, and those within.
fn nested(reader: &mut Reader<'_>, shape: &[usize], sink: &mut impl Sink) -> Read<()> {
    match shape {
        _ if reader.peek() != Some(b'[') => Err(Flaw::Lengths(reader.at())),
        [] => Err(Flaw::Lengths(reader.at())),
        [length] => sink.array(reader, *length),
        [length, rest @ ..] => items(reader, 0..*length, |reader, _| nested(reader, rest, sink)),
    }
}

/// Reads an array that has exactly one item for each of `places`, from its opening bracket on.
#[inline(always)]
fn items<'a, T>(
    reader: &mut Reader<'a>,
    places: impl IntoIterator<Item = T>,
    mut item: impl FnMut(&mut Reader<'a>, T) -> Read<()>,
) -> Read<()> {
    reader.bump();
    let mut more = reader.item(&mut true)?;
    for place in places {
        if !more {
            return Err(Flaw::Lengths(reader.at()));
        }
        reader.peek();
        item(reader, place)?;
        more = reader.next_item()?;
    }
    if more { Err(Flaw::Lengths(reader.at())) } else { Ok(()) }
}

#[inline(always)]
fn single(reader: &mut Reader<'_>) -> Read<[u8; 4]> {
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
                return Err(Flaw::Element(at));
            }
            value
        }
        None => non_finite(reader)?,
    };
    Ok(value.to_le_bytes())
}

#[inline(always)]
fn double(reader: &mut Reader<'_>) -> Read<[u8; 8]> {
    let at = reader.at();
    if let Some(short) = reader.short() {
        return Ok(float::short_to_f64(&short).to_le_bytes());
    }
    let value = match reader.number() {
        Some((decimal, text)) => {
            let value = float::to_f64(&decimal, text);
            if value.is_infinite() {
                return Err(Flaw::Element(at));
            }
            value
        }
        None => f64::from(non_finite(reader)?),
    };
    Ok(value.to_le_bytes())
}

fn narrow(reader: &mut Reader<'_>, format: Narrow) -> Read<[u8; 2]> {
    let at = reader.at();
    let bits = match reader.number() {
        Some((decimal, text)) => format.from_decimal(&decimal, text).ok_or(Flaw::Element(at))?,
        None => {
            let value = non_finite(reader)?;
            let magnitude = if value.is_nan() { format.nan() } else { format.infinity() };
            magnitude | u16::from(value < 0.0) << 15
        }
    };
    Ok(bits.to_le_bytes())
}

#[inline(always)]
fn integer<T: TryFrom<i128> + TryFrom<i64>>(reader: &mut Reader<'_>) -> Read<T> {
    let at = reader.at();
    if let Some(Short { negative, mantissa, places: 0 }) = reader.short() {
        return T::try_from(if negative { -mantissa } else { mantissa }).map_err(|_| Flaw::Element(at));
    }
    reader.seek(at);
    let Some((decimal, text)) = reader.number() else { return Err(wrong_element(*reader)) };
    number::integer(&decimal, text).and_then(|value| T::try_from(value).ok()).ok_or(Flaw::Element(at))
}

fn boolean(reader: &mut Reader<'_>) -> Read<[u8; 1]> {
    if reader.word("true") {
        return Ok([1]);
    }
    if reader.word("false") {
        return Ok([0]);
    }
    let at = reader.at();
    let value: u8 = integer(reader)?;
    if value > 1 { Err(Flaw::Element(at)) } else { Ok([value]) }
}

/// Appends the string at the reader as a framed element.
fn append_string(reader: &mut Reader<'_>, buffer: &mut AlignedBuffer, base64: bool) -> Read<()> {
    let at = reader.at();
    if reader.peek() != Some(b'"') {
        return Err(wrong_element(*reader));
    }
    let raw = reader.string("a string")?;
    let start = buffer.len();
    buffer.extend_from_slice(&[0; bytes_tensor::PREFIX]);
    if base64 {
        let bytes = STANDARD.decode(raw.bytes()?).map_err(|_| Flaw::Base64(at))?;
        buffer.extend_from_slice(&bytes);
    } else {
        raw.pieces(|piece| buffer.extend_from_slice(piece))?;
    }
    let length = buffer.len() - start - bytes_tensor::PREFIX;
    let prefix = bytes_tensor::prefix(length).map_err(Flaw::Other)?;
    buffer[start..start + bytes_tensor::PREFIX].copy_from_slice(&prefix);
    Ok(())
}

/// The non-finite token at the reader, or what is wrong with what is there.
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
fn wrong_element(mut reader: Reader<'_>) -> Flaw {
    let at = reader.at();
    match reader.peek() {
        Some(b'[') => Flaw::Lengths(at),
        Some(b'"' | b't' | b'f' | b'n' | b'{' | b'-' | b'0'..=b'9' | b'N' | b'I') => {
            match reader.skip(Skip { max_depth: 64, non_finite: true }) {
                Ok(_) => Flaw::Element(at),
                Err(fault) => Flaw::Syntax(fault),
            }
        }
        _ => Flaw::Syntax(reader.fault("an element")),
    }
}

#[cold]
fn describe(flaw: Flaw, reader: &mut Reader<'_>, target: &Target<'_>, start: usize) -> Error {
    let Target { name, datatype, shape, max_depth, .. } = *target;
    match flaw {
        Flaw::Syntax(fault) => fault.into(),
        Flaw::Other(error) => error,
        Flaw::Base64(at) => {
            Error::invalid(format!("input '{name}' has a string at byte {at} that is not padded standard base64"))
        }
        Flaw::Element(at) => Error::invalid(format!(
            "input '{name}' has {} at byte {at}, {datatype} takes {}",
            token(reader, at, max_depth),
            accepted(datatype)
        )),
        Flaw::Lengths(at) => {
            reader.seek(start);
            match (reader.skip(Skip { max_depth, non_finite: true }), element_count(shape)) {
                (Err(fault), _) => fault.into(),
                (_, Err(error)) => error,
                (Ok(got), Ok(expected)) if got != expected => Error::invalid(format!(
                    "input '{name}' has {got} elements in 'data', shape {shape:?} expects {expected}"
                )),
                _ => Error::invalid(format!(
                    "input '{name}' has ragged 'data' at byte {at}, it must be flat or nested as its shape {shape:?}"
                )),
            }
        }
    }
}

/// The JSON value at `at` for a message, cut short.
fn token(reader: &mut Reader<'_>, at: usize, max_depth: usize) -> String {
    const LONGEST: usize = 32;
    reader.seek(at);
    if reader.skip(Skip { max_depth, non_finite: true }).is_err() {
        return "a wrong value".to_owned();
    }
    let text = String::from_utf8_lossy(reader.since(at)).into_owned();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}

/// What a datatype takes as an element.
fn accepted(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Bool => "true, false, 0 or 1",
        Datatype::Uint8 => "integers from 0 to 255",
        Datatype::Uint16 => "integers from 0 to 65535",
        Datatype::Uint32 => "integers from 0 to 4294967295",
        Datatype::Uint64 => "integers from 0 to 18446744073709551615",
        Datatype::Int8 => "integers from -128 to 127",
        Datatype::Int16 => "integers from -32768 to 32767",
        Datatype::Int32 => "integers from -2147483648 to 2147483647",
        Datatype::Int64 => "integers from -9223372036854775808 to 9223372036854775807",
        Datatype::Fp16 => "numbers up to 65504, NaN, Infinity and -Infinity",
        Datatype::Bf16 => "numbers up to 3.3895314e38, NaN, Infinity and -Infinity",
        Datatype::Fp32 => "numbers up to 3.4028235e38, NaN, Infinity and -Infinity",
        Datatype::Fp64 => "numbers up to 1.7976931348623157e308, NaN, Infinity and -Infinity",
        Datatype::Bytes => "strings",
    }
}
