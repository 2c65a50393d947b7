//! Reads what `numpy.save` writes. Arrays of objects are pickles, and those are never read.

use super::{
    numpy_strings::{self, Kind},
    tensors::Inputs,
};
use penstock_core::{
    AlignedBuffer, Datatype, Error, MAX_RANK, Result, Shape, aligned_with_capacity,
    copies::{self, Step},
    element_count,
};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header that is read; numpy itself stops at 10 000 characters.
const LONGEST_HEADER: usize = 64 << 10;

/// The only input of a model.
pub(super) fn decode(body: &[u8], inputs: &mut Inputs<'_>) -> Result<()> {
    let [_] = inputs.spec.inputs.as_slice() else {
        return Err(Error::invalid(format!(
            "an npy request is for models with one input, model '{}' has {}: send npz",
            inputs.spec.name,
            inputs.spec.inputs.len()
        )));
    };
    input(body, 0, inputs)
}

/// Input `index`, from a file in memory.
pub(super) fn input(file: &[u8], index: usize, inputs: &mut Inputs<'_>) -> Result<()> {
    let name = &inputs.declared(index).name;
    let array = Array::parse(file).map_err(|error| inputs.with_input_name(index, &error))?;
    let element = Element::parse(array.descr).map_err(|error| inputs.with_input_name(index, &error))?;
    let Some(datatype) = element.datatype(inputs.declared(index).datatype) else {
        return Err(Error::invalid(format!(
            "input '{name}' has dtype '{}', expected the dtype of a datatype",
            array.descr
        )));
    };
    let count = inputs.check(index, datatype, &array.shape)?;
    let expected = count.checked_mul(element.size).filter(|size| *size == array.data.len()).is_some();
    if !expected {
        return Err(Error::invalid(format!(
            "input '{name}': got {} bytes, expected {} for dtype '{}' and shape {:?}",
            array.data.len(),
            count.saturating_mul(element.size),
            array.descr,
            array.shape.as_slice()
        )));
    }
    if array.fortran && array.shape.len() > 1 {
        let rows = row_major(array.data, &array.shape, element.size);
        return put(inputs, index, (datatype, element), array.shape, &rows);
    }
    put(inputs, index, (datatype, element), array.shape, array.data)
}

/// Adds row-major elements.
fn put(
    inputs: &mut Inputs<'_>,
    index: usize,
    (datatype, element): (Datatype, Element),
    shape: Shape,
    data: &[u8],
) -> Result<()> {
    let buffer = element.little_endian(data).map_err(|error| inputs.with_input_name(index, &error))?;
    copies::count(Step::Receive, buffer.len());
    inputs.put(index, datatype, shape, buffer)
}

/// A file's header, and its elements.
struct Array<'f> {
    descr: &'f str,
    fortran: bool,
    shape: Shape,
    data: &'f [u8],
}

impl<'f> Array<'f> {
    fn parse(file: &'f [u8]) -> Result<Self> {
        let wrong = || Error::invalid("not npy data, as numpy.save writes it");
        let rest = file.strip_prefix(MAGIC).ok_or_else(wrong)?;
        let (length, rest) = match rest {
            [1, _, low, high, rest @ ..] => (usize::from(u16::from_le_bytes([*low, *high])), rest),
            [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
            _ => return Err(wrong()),
        };
        if length > LONGEST_HEADER {
            return Err(Error::invalid(format!(
                "the npy header has {length} bytes, at most {LONGEST_HEADER} are read"
            )));
        }
        let (header, data) = rest.split_at_checked(length).ok_or_else(wrong)?;
        let header = std::str::from_utf8(header).map_err(|_| wrong())?;
        let mut cursor = Cursor(header);
        let (descr, fortran, shape) = cursor.header()?;
        Ok(Self { descr, fortran, shape, data })
    }
}

/// The header: a Python literal of a fixed form.
struct Cursor<'t>(&'t str);

impl<'t> Cursor<'t> {
    fn header(&mut self) -> Result<(&'t str, bool, Shape)> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.take('}') {
            let key = self.quoted()?;
            self.expect(':')?;
            match key {
                "descr" if self.0.trim_start().starts_with('[') => {
                    return Err(Error::invalid("the npy array has fields, expected elements of one dtype"));
                }
                "descr" => descr = Some(self.quoted()?),
                "fortran_order" => fortran = Some(self.boolean()?),
                "shape" => shape = Some(self.shape()?),
                _ => return Err(wrong_header()),
            }
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.0.trim().is_empty() {
            return Err(wrong_header());
        }
        descr.zip(fortran).zip(shape).map(|((descr, fortran), shape)| (descr, fortran, shape)).ok_or_else(wrong_header)
    }

    fn take(&mut self, token: char) -> bool {
        let rest = self.0.trim_start();
        match rest.strip_prefix(token) {
            Some(rest) => self.0 = rest,
            None => return false,
        }
        true
    }

    fn expect(&mut self, token: char) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(wrong_header()) }
    }

    fn quoted(&mut self) -> Result<&'t str> {
        let quote = if self.take('\'') { '\'' } else { '"' };
        if quote == '"' {
            self.expect('"')?;
        }
        let (text, rest) = self.0.split_once(quote).ok_or_else(wrong_header)?;
        self.0 = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool> {
        let rest = self.0.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = rest.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(wrong_header())
    }

    fn shape(&mut self) -> Result<Shape> {
        let mut shape = Shape::new();
        self.expect('(')?;
        while !self.take(')') {
            let rest = self.0.trim_start();
            let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
            shape.push(rest[..end].parse().map_err(|_| wrong_header())?);
            if shape.len() > MAX_RANK {
                return Err(Error::invalid(format!("the array has more than {MAX_RANK} dimensions")));
            }
            // Python 2 wrote long integers so.
            self.0 = rest[end..].strip_prefix('L').unwrap_or(&rest[end..]);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }
}

fn wrong_header() -> Error {
    Error::invalid("the npy header is broken, expected a dict of 'descr', 'fortran_order' and 'shape'")
}

/// Element type of a `descr`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    kind: u8,
    size: usize,
    big_endian: bool,
}

impl Element {
    /// Parses a `descr` such as `<f4`.
    pub(super) fn parse(descr: &str) -> Result<Self> {
        let unknown = || Error::invalid(format!("unknown dtype {descr:?}"));
        let (order, rest) = match descr.as_bytes() {
            [order @ (b'<' | b'>' | b'|' | b'='), rest @ ..] => (*order, rest),
            rest => (b'|', rest),
        };
        let [kind, digits @ ..] = rest else { return Err(unknown()) };
        if *kind == b'O' {
            return Err(Error::invalid(
                "an array of objects is a pickle, which is never read: send strings of one width (dtype 'S' or 'U'), or \
                 another format",
            ));
        }
        let size: usize = match (kind, std::str::from_utf8(digits)) {
            (b'?', Ok("")) => 1,
            (_, Ok(digits)) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| unknown())?
            }
            _ => return Err(unknown()),
        };
        let size = if *kind == b'U' { size.checked_mul(4).ok_or_else(unknown)? } else { size };
        if size == 0 {
            return Err(Error::invalid(format!("dtype '{descr}' has elements without width")));
        }
        Ok(Self { kind: *kind, size, big_endian: order == b'>' })
    }

    /// Bytes of an element.
    pub(super) fn size(self) -> usize {
        self.size
    }

    /// Returns the datatype, for an input that expects `expected`. numpy has no brain floats: those of `ml_dtypes` are
    /// raw bytes.
    pub(super) fn datatype(self, expected: Datatype) -> Option<Datatype> {
        let raw = || expected.size() == Some(self.size) && expected.numpy_code().starts_with('V');
        match self.kind {
            b'?' => Some(Datatype::Bool),
            b'V' => raw().then_some(expected),
            kind => Datatype::from_numpy(kind, self.size),
        }
    }

    /// Converts elements to the layout of a tensor.
    pub(super) fn little_endian(self, data: &[u8]) -> Result<AlignedBuffer> {
        match self.kind {
            b'S' => numpy_strings::framed(data, self.size, Kind::Bytes, false),
            b'U' => numpy_strings::framed(data, self.size, Kind::Text, self.big_endian),
            _ => {
                let mut buffer = aligned_with_capacity(data.len());
                buffer.extend_from_slice(data);
                if self.big_endian && self.size > 1 {
                    buffer.chunks_exact_mut(self.size).for_each(<[u8]>::reverse);
                }
                Ok(buffer)
            }
        }
    }
}

/// Elements whose first axis runs fastest, in an order where the last does.
fn row_major(data: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let count = element_count(shape).unwrap_or(0);
    let mut out = Vec::with_capacity(data.len());
    let mut strides = Shape::new();
    let mut stride = size;
    for &length in shape {
        strides.push(stride);
        stride = stride.saturating_mul(length);
    }
    let mut place: Shape = shape.iter().map(|_| 0).collect();
    let mut at = 0;
    for _ in 0..count {
        out.extend_from_slice(&data[at..at + size]);
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            at += strides[axis];
            if place[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            place[axis] = 0;
        }
    }
    out
}
