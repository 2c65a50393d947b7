//! The tensor that JSON data is read for, and the errors of its data.

use super::{
    element::{self, ElementError},
    reader::{Reader, Skip},
};
use penstock_core::{Datatype, Error, element_count};

/// Levels that are open around a member of an input: the body, its list of inputs, the input.
pub(crate) const LEVELS: usize = 3;

/// Tensor whose data is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'t> {
    /// The tensor's name, for messages.
    pub(crate) name: &'t str,
    /// The type of its elements.
    pub(crate) datatype: Datatype,
    /// The sizes of its axes.
    pub(crate) shape: &'t [usize],
    /// Decode the strings of a BYTES tensor from base64.
    pub(crate) base64: bool,
    /// Read `null` as NaN.
    pub(crate) null_is_nan: bool,
    /// Maximum depth to which broken data is parsed for an error.
    pub(crate) max_depth: usize,
}

#[cold]
pub(crate) fn describe(flaw: ElementError, reader: &mut Reader<'_>, target: &Target<'_>, start: usize) -> Error {
    let Target { name, datatype, shape, max_depth, .. } = *target;
    match flaw {
        ElementError::Syntax(fault) => fault.into(),
        ElementError::Other(error) => error,
        ElementError::Base64(at) => {
            Error::invalid(format!("input '{name}' has a string at byte {at} that is not padded standard base64"))
        }
        ElementError::Element(at) => Error::invalid(format!(
            "input '{name}' has {} at byte {at}, {datatype} takes {}",
            token(reader, at, max_depth),
            element::accepted(datatype)
        )),
        ElementError::Lengths(at) => {
            reader.seek(start);
            match (reader.skip(Skip { max_depth, outer: LEVELS, non_finite: true }), element_count(shape)) {
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
    if reader.skip(Skip { max_depth, outer: LEVELS, non_finite: true }).is_err() {
        return "a wrong value".to_owned();
    }
    let text = String::from_utf8_lossy(reader.since(at)).into_owned();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}
