//! Members of a response's JSON that some servers write in another form.

use crate::json::{number, reader::Reader};
use penstock_core::{MAX_RANK, Result, Shape};

/// A string; empty for `null`, which some servers write for what they do not know.
pub(super) fn text_or_null(reader: &mut Reader<'_>) -> Result<String> {
    if reader.peek() == Some(b'n') && reader.word("null") {
        return Ok(String::new());
    }
    Ok(reader.string("a string or null")?.text()?.into_owned())
}

pub(super) fn read_shape(reader: &mut Reader<'_>) -> Result<Shape> {
    let mut shape = Shape::new();
    reader.expect(b'[', "an array for 'shape'")?;
    let mut first = true;
    while reader.item(&mut first)? {
        if shape.len() == MAX_RANK {
            return Err(reader.fault("at most 32 dimensions in 'shape'").into());
        }
        reader.peek();
        let at = reader.at();
        let dimension = reader.number().and_then(|(decimal, text)| number::integer(&decimal, text));
        match dimension.map(usize::try_from) {
            Some(Ok(dimension)) => shape.push(dimension),
            _ => return Err(reader.from(at).fault("non-negative integers in 'shape'").into()),
        }
    }
    Ok(shape)
}
