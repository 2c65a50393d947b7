//! Conversion of an undeclared output, whose datatype is that of its array.

use super::{
    borrow::{contiguous, own_datatype},
    from_numpy, from_objects,
};
use crate::errors::class_of;
use numpy::{PyUntypedArray, PyUntypedArrayMethods as _};
use penstock_core::{Datatype, Error, Result, Shape, Tensor};
use pyo3::prelude::*;

/// Converts an array, or an object that numpy converts to one.
///
/// # Errors
/// `Handler` that names the output and its type.
pub(crate) fn tensor(model: &str, name: &str, item: Bound<'_, PyAny>, copied_at_once: bool) -> Result<Tensor> {
    let unfit = |what: &str| {
        let takes = "arrays of a datatype of the protocol, or lists of bytes, str and numbers";
        Error::handler(format!("model '{model}' returned {what} for output '{name}', expected {takes}"))
    };
    if item.is_none() {
        return Err(unfit("None"));
    }
    let array = match item.cast_into::<PyUntypedArray>() {
        Ok(array) => array,
        Err(error) => {
            let item = error.into_inner();
            let class = class_of(&item);
            let made = item.py().import("numpy").and_then(|numpy| numpy.call_method1("asarray", (item,)));
            made.ok().and_then(|made| made.cast_into().ok()).ok_or_else(|| unfit(&class))?
        }
    };
    let datatype = own_datatype(&array).ok_or_else(|| unfit(&format!("an array of {}", array.dtype())))?;
    if datatype == Datatype::Bytes {
        return from_objects::tensor(array.as_any(), |what| unfit(&what));
    }
    let array = contiguous(array).map_err(|_| unfit("an array that cannot be copied"))?;
    let shape: Shape = array.shape().into();
    Tensor::new(datatype, shape, from_numpy::take(array, copied_at_once))
        .map_err(|error| Error::handler(format!("model '{model}': output '{name}': {}", error.message())))
}
