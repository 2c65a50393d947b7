//! Limits on the lists of a request message, checked on its bytes before they are decoded into vectors and maps.

use super::protobuf::{Fields, Malformed, Value, count_varints};
use crate::request::{MAX_PARAMETERS, bounded};
use penstock_core::{Error, MAX_RANK, Result};

// Fields of `ModelInferRequest`.
const PARAMETERS: u64 = 4;
const INPUTS: u64 = 5;
const OUTPUTS: u64 = 6;

// Fields of `InferInputTensor`, and of `InferRequestedOutputTensor`.
const NAME: u64 = 1;
const SHAPE: u64 = 3;
const INPUT_PARAMETERS: u64 = 4;
const OUTPUT_PARAMETERS: u64 = 2;

/// Maximum number of fields of a message. The lists of an inference request have their own limits.
pub(super) const MAX_FIELDS: usize = 16 << 10;

/// Checks the number of fields of any message.
///
/// # Errors
/// `InvalidInput` for too many, and for bytes that are not a message.
pub fn check_fields(message: &[u8]) -> Result<()> {
    let mut fields = Fields(message);
    if fields.by_ref().take(MAX_FIELDS).try_for_each(|field| field.map(drop)).is_err() {
        return Err(Error::invalid("the message cannot be decoded: it is not protobuf"));
    }
    if fields.next().is_some() { Err(too_many_fields()) } else { Ok(()) }
}

/// The error of a message with more than [`MAX_FIELDS`].
pub(super) fn too_many_fields() -> Error {
    Error::invalid(format!("the protobuf message has more than {MAX_FIELDS} fields"))
}

/// Checks the total number of parameters of a request and its tensors, and the rank of each input.
///
/// # Errors
/// `InvalidInput` beyond the limits, and for bytes that are not a message.
pub(super) fn check(head: &[u8]) -> Result<()> {
    let mut parameters = 0;
    let mut count = || {
        parameters += 1;
        bounded("parameters", parameters, MAX_PARAMETERS)
    };
    for field in Fields(head) {
        match field.map_err(malformed)? {
            (PARAMETERS, _) => count()?,
            (INPUTS, Value::Bytes(input)) => check_input(input, &mut count)?,
            (OUTPUTS, Value::Bytes(output)) => {
                for field in Fields(output) {
                    if field.map_err(malformed)?.0 == OUTPUT_PARAMETERS {
                        count()?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_input(input: &[u8], count: &mut impl FnMut() -> Result<()>) -> Result<()> {
    let (mut name, mut rank) = (&b""[..], 0);
    for field in Fields(input) {
        match field.map_err(malformed)? {
            (NAME, Value::Bytes(text)) => name = text,
            (SHAPE, Value::Bytes(dims)) => rank += count_varints(dims),
            (SHAPE, _) => rank += 1,
            (INPUT_PARAMETERS, _) => count()?,
            _ => {}
        }
    }
    if rank > MAX_RANK {
        return Err(beyond_rank(&String::from_utf8_lossy(name), rank));
    }
    Ok(())
}

/// The error of an input with more than [`MAX_RANK`] dimensions.
pub(super) fn beyond_rank(name: &str, rank: usize) -> Error {
    Error::invalid(format!("input '{name}' has a shape of {rank} dimensions, at most {MAX_RANK} are accepted"))
}

fn malformed(detail: Malformed) -> Error {
    Error::invalid(format!("the protobuf message is not a ModelInferRequest: {detail}"))
}
