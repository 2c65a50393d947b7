//! Conversion of Python numbers, bytes and texts to tensors.

use crate::errors::class_of;
use penstock_core::{
    AlignedBuffer, Buffer, Datatype, Error, Result, Shape, Tensor, aligned_with_capacity, bytes_tensor,
    copies::{self, Step},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyFloat, PyInt, PyString},
};

/// Converts an array or nested list of `bytes` and `str` to a BYTES tensor.
///
/// # Errors
/// The error of `unfit` for any other element.
pub(crate) fn tensor(item: &Bound<'_, PyAny>, unfit: impl Fn(String) -> Error) -> Result<Tensor> {
    let read = || -> PyResult<(Shape, Bound<'_, PyAny>)> {
        let array = item.py().import("numpy")?.call_method1("asarray", (item, "O"))?;
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        Ok((shape.into(), array.getattr("flat")?))
    };
    let (shape, flat) = read().map_err(|_| unfit(class_of(item)))?;
    let mut framed = aligned_with_capacity(0);
    for element in flat.try_iter().map_err(|_| unfit(class_of(item)))? {
        let element = element.map_err(|_| unfit(class_of(item)))?;
        if let Ok(bytes) = element.cast::<PyBytes>() {
            push(&mut framed, bytes.as_bytes())?;
        } else if let Some(text) = element.cast::<PyString>().ok().and_then(|text| text.to_cow().ok()) {
            push(&mut framed, text.as_bytes())?;
        } else {
            return Err(unfit(format!("an element of type {}", class_of(&element))));
        }
    }
    copies::count(Step::HandOut, framed.len());
    Tensor::new(Datatype::Bytes, shape, Buffer::Aligned(framed))
        .map_err(|error| Error::handler(error.message().to_owned()))
}

/// Converts bare bytes or a bare text without numpy, for streams of one text a chunk. Returns `None` for all other
/// objects, and for a text that is not UTF-8: [`tensor`] converts or refuses them.
pub(crate) fn single(item: &Bound<'_, PyAny>) -> Option<Result<Tensor>> {
    let framed = if let Ok(bytes) = item.cast_exact::<PyBytes>() {
        framed(bytes.as_bytes())
    } else {
        framed(item.cast_exact::<PyString>().ok()?.to_cow().ok()?.as_bytes())
    };
    Some(framed.and_then(|framed| {
        copies::count(Step::HandOut, framed.len());
        Tensor::new(Datatype::Bytes, Shape::new(), Buffer::Aligned(framed))
            .map_err(|error| Error::handler(error.message().to_owned()))
    }))
}

fn framed(element: &[u8]) -> Result<AlignedBuffer> {
    let mut framed = aligned_with_capacity(element.len().saturating_add(4));
    push(&mut framed, element)?;
    Ok(framed)
}

fn push(framed: &mut AlignedBuffer, element: &[u8]) -> Result<()> {
    framed.extend_from_slice(&bytes_tensor::prefix(element.len())?);
    framed.extend_from_slice(element);
    Ok(())
}

/// Converts a bare number that fits for certain. Skips numpy, which takes a microsecond: for streams of one number a
/// chunk. numpy converts all other objects, with its errors.
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
