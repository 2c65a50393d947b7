//! Bare numbers that handlers return.

use penstock_core::{
    Buffer, Datatype, aligned_with_capacity,
    copies::{self, Step},
};
use pyo3::{
    prelude::*,
    types::{PyFloat, PyInt},
};

/// A bare number that surely fits, without the way through numpy, which takes a microsecond: for streams
/// of one number a piece. All else is left to numpy, and to its errors.
pub(crate) fn number(item: &Bound<'_, PyAny>, datatype: Datatype) -> Option<Buffer> {
    let bytes = |bytes: &[u8]| {
        copies::count(Step::HandOut, bytes.len());
        let mut buffer = aligned_with_capacity(bytes.len());
        buffer.extend_from_slice(bytes);
        Buffer::Aligned(buffer)
    };
    if item.is_exact_instance_of::<PyInt>() {
        return match datatype {
            Datatype::Int32 => item.extract::<i32>().ok().map(|value| bytes(&value.to_le_bytes())),
            Datatype::Int64 => item.extract::<i64>().ok().map(|value| bytes(&value.to_le_bytes())),
            _ => None,
        };
    }
    if item.is_exact_instance_of::<PyFloat>() {
        return match datatype {
            Datatype::Fp32 => item.extract::<f64>().ok().map(|value| bytes(&(value as f32).to_le_bytes())),
            Datatype::Fp64 => item.extract::<f64>().ok().map(|value| bytes(&value.to_le_bytes())),
            _ => None,
        };
    }
    None
}
