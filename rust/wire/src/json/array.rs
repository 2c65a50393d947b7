//! Tensor `data`: JSON numbers, booleans and strings, written straight into the tensor's buffer.

use super::{
    element::{self, ElementError, Read, Visitor},
    reader::Reader,
    target::{Target, describe},
};
use penstock_core::{AlignedBuffer, ElementKind, Error, Result, aligned_with_capacity, aligned_zeroed, element_count};

/// Reads the array at the reader: flat, or nested as the shape is.
///
/// # Errors
/// `InvalidInput` that names the tensor, and what it got and expected.
pub(crate) fn read(reader: &mut Reader<'_>, target: &Target<'_>) -> Result<AlignedBuffer> {
    let count = element_count(target.shape)?;
    let start = match reader.peek() {
        Some(b'[') => reader.at(),
        _ => return Err(Error::invalid(format!("'data' of input '{}' must be an array", target.name))),
    };
    // An element has at least one byte: a short body cannot allocate a large buffer.
    let read = if count > reader.remaining() {
        Err(ElementError::Lengths(start))
    } else {
        let array = Array { shape: target.shape, count, bare: false };
        match read_elements(reader, target, array) {
            // Most requests have no null, and are read without looking for one.
            Err(ElementError::Element(_)) if target.null_is_nan => {
                reader.seek(start);
                read_with_null(reader, target, array)
            }
            read => read,
        }
    };
    read.map_err(|flaw| describe(flaw, reader, target, start))
}

/// Reads the value at the reader as a tensor of one element.
///
/// # Errors
/// `InvalidInput` that names the tensor, and what it got and expected.
pub(crate) fn read_scalar(reader: &mut Reader<'_>, target: &Target<'_>) -> Result<AlignedBuffer> {
    reader.peek();
    let start = reader.at();
    let read = read_elements(reader, target, Array { shape: target.shape, count: 1, bare: true });
    read.map_err(|flaw| describe(flaw, reader, target, start))
}

fn read_elements(reader: &mut Reader<'_>, target: &Target<'_>, array: Array<'_>) -> Read<AlignedBuffer> {
    element::visit(target.datatype, ArrayVisitor { reader, target, array })
}

/// Reads an array with the parser of its elements.
struct ArrayVisitor<'a, 'j, 't> {
    reader: &'a mut Reader<'j>,
    target: &'a Target<'t>,
    array: Array<'t>,
}

impl Visitor for ArrayVisitor<'_, '_, '_> {
    type Output = Read<AlignedBuffer>;

    #[inline(always)]
    fn fixed<const N: usize>(self, parse: impl Fn(&mut Reader<'_>) -> Read<[u8; N]>) -> Self::Output {
        fixed(self.reader, self.array, parse)
    }

    fn strings(self) -> Self::Output {
        strings(self.reader, self.array, self.target.base64)
    }
}

/// As [`read_elements`], where `null` stands for a float that is not a number.
#[cold]
fn read_with_null(reader: &mut Reader<'_>, target: &Target<'_>, array: Array<'_>) -> Read<AlignedBuffer> {
    match target.datatype.kind() {
        ElementKind::Float => element::visit(target.datatype, NullableVisitor(ArrayVisitor { reader, target, array })),
        _ => read_elements(reader, target, array),
    }
}

/// Reads an array of floats in which `null` is NaN.
struct NullableVisitor<'a, 'j, 't>(ArrayVisitor<'a, 'j, 't>);

impl Visitor for NullableVisitor<'_, '_, '_> {
    type Output = Read<AlignedBuffer>;

    fn fixed<const N: usize>(self, parse: impl Fn(&mut Reader<'_>) -> Read<[u8; N]>) -> Self::Output {
        let nan = parse(&mut Reader::new(b"NaN"))?;
        self.0.fixed(or_null(parse, nan))
    }

    fn strings(self) -> Self::Output {
        self.0.strings()
    }
}

/// Returns a parser that reads `null` as `none`.
fn or_null<const N: usize>(
    parse: impl Fn(&mut Reader<'_>) -> Read<[u8; N]>,
    none: [u8; N],
) -> impl Fn(&mut Reader<'_>) -> Read<[u8; N]> {
    move |reader| if reader.word("null") { Ok(none) } else { parse(reader) }
}

/// Returns whether an array contains lists.
pub(crate) fn is_nested(reader: &mut Reader<'_>) -> bool {
    reader.take(b'[') && reader.peek() == Some(b'[')
}

/// Destination of elements.
trait Sink {
    /// Reads an array of `count` elements, from its opening bracket on.
    fn array(&mut self, reader: &mut Reader<'_>, count: usize) -> Read<()>;

    /// Reads one element without brackets.
    fn one(&mut self, reader: &mut Reader<'_>) -> Read<()>;
}

/// Elements of `N` bytes, in an allocated buffer.
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

    fn one(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        if let Some(slot) = self.slots.first_mut() {
            *slot = (self.parse)(reader)?;
        }
        Ok(())
    }
}

/// Elements that are strings, appended with their lengths.
struct Strings {
    buffer: AlignedBuffer,
    base64: bool,
}

impl Sink for Strings {
    fn array(&mut self, reader: &mut Reader<'_>, count: usize) -> Read<()> {
        items(reader, 0..count, |reader, _| element::append_string(reader, &mut self.buffer, self.base64))
    }

    fn one(&mut self, reader: &mut Reader<'_>) -> Read<()> {
        element::append_string(reader, &mut self.buffer, self.base64)
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
    /// One element without brackets.
    bare: bool,
}

impl Array<'_> {
    /// Reads elements, flat or nested, from the opening bracket on.
    fn read(self, reader: &mut Reader<'_>, sink: &mut impl Sink) -> Read<()> {
        if self.bare {
            return sink.one(reader);
        }
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
        _ if reader.peek() != Some(b'[') => Err(ElementError::Lengths(reader.at())),
        [] => Err(ElementError::Lengths(reader.at())),
        [length] => sink.array(reader, *length),
        [length, rest @ ..] => items(reader, 0..*length, |reader, _| nested(reader, rest, sink)),
    }
}

/// Reads an array that has exactly one item for each of `slots`, from its opening bracket on.
#[inline(always)]
fn items<'a, T>(
    reader: &mut Reader<'a>,
    slots: impl IntoIterator<Item = T>,
    mut item: impl FnMut(&mut Reader<'a>, T) -> Read<()>,
) -> Read<()> {
    reader.bump();
    let mut more = reader.item(&mut true)?;
    for slot in slots {
        if !more {
            return Err(ElementError::Lengths(reader.at()));
        }
        reader.peek();
        item(reader, slot)?;
        more = reader.next_item()?;
    }
    if more { Err(ElementError::Lengths(reader.at())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use crate::rest::testing::{decode, identity, refusal, request};
    use penstock_core::Datatype;

    fn rank(shape: &str) -> usize {
        shape.split(',').filter(|dim| !dim.trim_matches(['[', ']']).is_empty()).count()
    }

    /// The bytes of a tensor of that shape and data.
    fn bytes(datatype: Datatype, shape: &str, data: &str) -> Vec<u8> {
        let dims = vec![None; rank(shape)];
        let decoded = decode(&identity(datatype, &dims), &request(datatype.name(), shape, data)).unwrap();
        decoded.request.inputs[0].as_ref().unwrap().as_slice().to_vec()
    }

    /// Error text of a tensor of that shape and data.
    fn refused(datatype: Datatype, shape: &str, data: &str) -> String {
        let dims = vec![None; rank(shape)];
        refusal(&identity(datatype, &dims), &request(datatype.name(), shape, data))
    }

    #[test]
    fn data_is_flat_or_nested_like_the_shape() {
        let expected = [1, 2, 3, 4, 5, 6];
        for data in ["[1,2,3,4,5,6]", "[[1,2,3],[4,5,6]]", " [ [ 1 , 2\n, 3 ] , [4\t,5,6 ] ] "] {
            assert_eq!(bytes(Datatype::Uint8, "[2,3]", data), expected, "{data}");
        }
        assert_eq!(bytes(Datatype::Uint8, "[1,2,3]", "[[[1,2,3],[4,5,6]]]"), expected);
        assert_eq!(bytes(Datatype::Uint8, "[]", "[7]"), [7]);
        for (shape, data) in
            [("[0]", "[]"), ("[0,4]", "[]"), ("[2,0]", "[]"), ("[2,0]", "[[],[]]"), ("[2,0,3]", "[[], []]")]
        {
            assert!(bytes(Datatype::Fp32, shape, data).is_empty(), "{shape} {data}");
        }
        assert!(bytes(Datatype::Bytes, "[1,2,0]", "[[[],[]]]").is_empty());
    }

    #[test]
    fn count_mismatch_names_tensor_and_counts() {
        for (shape, data, message) in [
            ("[1,4]", "[1,2,3]", "input 'x' has 3 elements in 'data', shape [1, 4] expects 4"),
            ("[1,4]", "[1,2,3,4,5]", "input 'x' has 5 elements in 'data', shape [1, 4] expects 4"),
            ("[2,2]", "[[1,2],[3]]", "input 'x' has 3 elements in 'data', shape [2, 2] expects 4"),
            (
                "[1000000,1000000]",
                "[1]",
                "input 'x' has 1 elements in 'data', shape [1000000, 1000000] expects 1000000000000",
            ),
            ("[0]", "[1]", "input 'x' has 1 elements in 'data', shape [0] expects 0"),
            ("[]", "[]", "input 'x' has 0 elements in 'data', shape [] expects 1"),
        ] {
            assert_eq!(refused(Datatype::Fp32, shape, data), message);
            assert_eq!(refused(Datatype::Int8, shape, data), message);
        }
        assert_eq!(
            refused(Datatype::Bytes, "[2]", r#"["a"]"#),
            "input 'x' has 1 elements in 'data', shape [2] expects 2"
        );
    }

    #[test]
    fn ragged_nesting_is_refused() {
        let at = request("FP32", "[2,2]", "").find("\"data\":").unwrap() + 7;
        for (data, offset) in [("[[1,2,3],[4]]", 6), ("[[1,2],3,4]", 7), ("[[[1,2]],[[3,4]]]", 2), ("[1,[2],3,4]", 3)] {
            let message = format!(
                "input 'x' has ragged 'data' at byte {}, it must be flat or nested as its shape [2, 2]",
                at + offset
            );
            assert_eq!(refused(Datatype::Fp32, "[2,2]", data), message, "{data}");
        }
        for (shape, data) in [("[1]", "[[1]]"), ("[]", "[[1]]"), ("[0]", "[[]]"), ("[1,1]", "[[[1]]]")] {
            assert!(refused(Datatype::Fp32, shape, data).contains("ragged"), "{shape} {data}");
        }
    }

    #[test]
    fn data_must_be_an_array() {
        for data in ["1", "\"AAAA\"", "{}", "null"] {
            assert_eq!(refused(Datatype::Fp32, "[1]", data), "'data' of input 'x' must be an array");
        }
    }

    #[test]
    fn integer_bounds_of_each_datatype_are_exact() {
        for (datatype, low, high, size) in [
            (Datatype::Uint8, 0, i128::from(u8::MAX), 1),
            (Datatype::Uint16, 0, i128::from(u16::MAX), 2),
            (Datatype::Uint32, 0, i128::from(u32::MAX), 4),
            (Datatype::Uint64, 0, i128::from(u64::MAX), 8),
            (Datatype::Int8, i128::from(i8::MIN), i128::from(i8::MAX), 1),
            (Datatype::Int16, i128::from(i16::MIN), i128::from(i16::MAX), 2),
            (Datatype::Int32, i128::from(i32::MIN), i128::from(i32::MAX), 4),
            (Datatype::Int64, i128::from(i64::MIN), i128::from(i64::MAX), 8),
        ] {
            let data = format!("[{low},{high}]");
            let expected = [&low.to_le_bytes()[..size], &high.to_le_bytes()[..size]].concat();
            assert_eq!(bytes(datatype, "[2]", &data), expected);
            for beyond in [low - 1, high + 1] {
                let message = refused(datatype, "[1]", &format!("[{beyond}]"));
                let expected = format!("{datatype} takes integers from {low} to {high}");
                assert!(message.starts_with(&format!("input 'x' has {beyond} at byte ")), "{message}");
                assert!(message.ends_with(&expected), "{message}");
            }
        }
    }

    #[test]
    fn integral_floats_are_accepted_as_integers() {
        assert_eq!(bytes(Datatype::Int8, "[4]", "[1.0,1e2,-12.80e1,0.0]"), [1, 100, 0x80, 0]);
        for wrong in ["1.5", "1e-1", "2.55e3", "1e400"] {
            let message = refused(Datatype::Uint8, "[1]", &format!("[{wrong}]"));
            assert!(message.starts_with(&format!("input 'x' has {wrong} at byte ")), "{message}");
        }
    }

    #[test]
    fn booleans_accept_true_false_zero_and_one() {
        assert_eq!(bytes(Datatype::Bool, "[5]", "[true,false,0,1,1.0]"), [1, 0, 0, 1, 1]);
        for wrong in ["\"true\"", "2", "-1", "null", "0.5"] {
            let message = refused(Datatype::Bool, "[1]", &format!("[{wrong}]"));
            assert!(message.starts_with(&format!("input 'x' has {wrong} at byte ")), "{message}");
            assert!(message.ends_with("BOOL takes true, false, 0 or 1"), "{message}");
        }
    }

    #[test]
    fn floats_out_of_range_are_refused_and_non_finite_words_accepted() {
        let single = |data| bytes(Datatype::Fp32, "[1]", data);
        assert_eq!(single("[1e38]"), 1e38_f32.to_le_bytes());
        assert_eq!(single("[-0]"), (-0.0_f32).to_le_bytes());
        assert_eq!(single("[NaN]"), f32::NAN.to_le_bytes());
        assert_eq!(single("[ -Infinity ]"), f32::NEG_INFINITY.to_le_bytes());
        assert_eq!(
            bytes(Datatype::Fp64, "[2]", "[0.1,Infinity]"),
            [0.1_f64, f64::INFINITY].map(f64::to_le_bytes).concat()
        );
        assert_eq!(bytes(Datatype::Fp16, "[3]", "[1.00048828125,-Infinity,NaN]"), [0, 0x3C, 0, 0xFC, 0, 0x7E]);
        assert_eq!(bytes(Datatype::Bf16, "[2]", "[1.5,-1e-50]"), [0xC0, 0x3F, 0, 0x80]);
        for (datatype, wrong, range) in [
            (Datatype::Fp32, "1e39", "FP32 takes numbers up to 3.4028235e38, NaN, Infinity and -Infinity"),
            (Datatype::Fp64, "-1e309", "FP64 takes numbers up to 1.7976931348623157e308, NaN, Infinity and -Infinity"),
            (Datatype::Fp16, "65520", "FP16 takes numbers up to 65504, NaN, Infinity and -Infinity"),
            (Datatype::Bf16, "3.4e38", "BF16 takes numbers up to 3.3895314e38, NaN, Infinity and -Infinity"),
            (Datatype::Fp32, "\"1\"", "FP32 takes numbers up to 3.4028235e38, NaN, Infinity and -Infinity"),
            (Datatype::Fp32, "true", "FP32 takes numbers up to 3.4028235e38, NaN, Infinity and -Infinity"),
            (Datatype::Fp32, "null", "FP32 takes numbers up to 3.4028235e38, NaN, Infinity and -Infinity"),
            (Datatype::Int32, "NaN", "INT32 takes integers from -2147483648 to 2147483647"),
        ] {
            let message = refused(datatype, "[1]", &format!("[{wrong}]"));
            assert!(message.starts_with(&format!("input 'x' has {wrong} at byte ")), "{message}");
            assert!(message.ends_with(range), "{message}");
        }
        for broken in ["[nan]", "[1,]", "[01]", "[+1]", "[.5]", "[1 2]", "[Infinit]", "[--1]"] {
            let message = refused(Datatype::Fp32, "[2]", broken);
            assert!(message.starts_with("request JSON at byte "), "{broken}: {message}");
        }
    }

    #[test]
    fn long_values_are_truncated_in_messages() {
        let message = refused(Datatype::Fp32, "[1]", &format!("[\"{}\"]", "a".repeat(99)));
        assert!(message.contains(&format!("has \"{}... at byte", "a".repeat(31))), "{message}");
    }

    #[test]
    fn json_strings_become_framed_bytes() {
        let data = r#"["héllo","","\u0000","a\"b"]"#;
        let expected = ["héllo", "", "\0", "a\"b"]
            .map(|element| [&(element.len() as u32).to_le_bytes()[..], element.as_bytes()].concat())
            .concat();
        assert_eq!(bytes(Datatype::Bytes, "[4]", data), expected);
        assert_eq!(bytes(Datatype::Bytes, "[2,2]", r#"[["héllo",""],["\u0000","a\"b"]]"#), expected);
        for wrong in ["1", "null", "{\"b64\":\"AA==\"}"] {
            let message = refused(Datatype::Bytes, "[1]", &format!("[{wrong}]"));
            assert!(message.starts_with(&format!("input 'x' has {wrong} at byte ")), "{message}");
            assert!(message.ends_with("BYTES takes strings"), "{message}");
        }
    }
}
