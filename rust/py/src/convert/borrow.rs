//! Conversion of a client's arrays to tensors, over their own memory.
//!
//! # Rationale
//! A contiguous array is sent from its own memory, without a copy. A reference keeps it alive until the last byte is
//! sent, which also prevents numpy from resizing it.
//!
//! # Limitations
//! A program that writes to the array while the request is sent, sends a mixture of old and new bytes. BYTES, BF16 that
//! is float32 in Python, and arrays that are not contiguous are copied.

use crate::errors::invalid;
use bytes::Bytes;
use half::bf16;
use numpy::{PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _, npyffi::PyArrayObject};
use penstock_core::{AlignedBuffer, Buffer, Datatype, Memory, Shape, Tensor, aligned_with_capacity, bytes_tensor};
use pyo3::{
    prelude::*,
    types::{PyByteArray, PyBytes, PyDict, PyString},
};
use std::sync::Arc;

/// Converts an array. `datatype` is the protocol's, where the array's dtype does not determine it.
///
/// # Errors
/// `InvalidInput` that names the input and its type.
pub(crate) fn tensor(name: &str, value: Bound<'_, PyAny>, datatype: Option<&str>) -> PyResult<Tensor> {
    let py = value.py();
    let array = value.cast_into::<PyUntypedArray>().map_err(|error| {
        let class = class_of(&error.into_inner());
        invalid(py, &format!("input '{name}' is a {class}, expected an array"))
    })?;
    let own = own_datatype(&array);
    let wanted = datatype.map(|text| {
        Datatype::from_name(text)
            .ok_or_else(|| invalid(py, &format!("input '{name}': datatype '{text}' is not one of the wire's")))
    });
    let wanted = wanted.transpose()?.or(own);
    let shape: Shape = array.shape().into();
    let (datatype, buffer) = match (own, wanted) {
        (Some(Datatype::Bytes), Some(Datatype::Bytes)) => (Datatype::Bytes, Buffer::Aligned(framed(name, &array)?)),
        (Some(Datatype::Fp32), Some(Datatype::Bf16)) => {
            (Datatype::Bf16, Buffer::Aligned(narrow(&lend(&contiguous(array)?))))
        }
        (Some(own), Some(wanted)) if own == wanted => {
            (own, Buffer::Shared(Bytes::from_owner(lend(&contiguous(array)?))))
        }
        (_, wanted) => {
            let dtype = array.dtype();
            let expected = wanted.map_or("a type that the protocol has".to_owned(), |wanted| wanted.to_string());
            return Err(invalid(py, &format!("input '{name}' is an array of {dtype}, expected {expected}")));
        }
    };
    Tensor::new(datatype, shape, buffer).map_err(|error| invalid(py, &format!("input '{name}': {error}")))
}

/// The protocol's datatype of an array's dtype.
pub(crate) fn own_datatype(array: &Bound<'_, PyUntypedArray>) -> Option<Datatype> {
    let dtype = array.dtype();
    let size = dtype.itemsize();
    // A type of another package, known by its name.
    let is_bf16 = || size == 2 && dtype.str().is_ok_and(|name| name == "bfloat16");
    Datatype::from_numpy(dtype.kind(), size).or_else(|| is_bf16().then_some(Datatype::Bf16))
}

/// Returns the array if it is row-major and in native byte order, else a copy that is.
pub(crate) fn contiguous<'py>(array: Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let dtype = array.dtype();
    if array.is_c_contiguous() && dtype.is_native_byteorder() != Some(false) {
        return Ok(array);
    }
    let py = array.py();
    let options = PyDict::new(py);
    options.set_item("dtype", dtype.call_method1("newbyteorder", ("=",))?)?;
    options.set_item("order", "C")?;
    Ok(py.import("numpy")?.call_method("array", (&array,), Some(&options))?.cast_into()?)
}

/// Keeps an array alive until its last byte is sent.
struct Lent {
    data: *const u8,
    len: usize,
    _array: Py<PyUntypedArray>,
}

// SAFETY: the memory behind `data` is only read, byte by byte, and stays in place while `_array` is held. Dropping a
// `Py` without the interpreter is allowed: PyO3 keeps the release for the next thread that attaches. The caller must
// not write meanwhile, as with every numpy function that reads an array without the interpreter. If it does, a
// mixture is sent, and nothing else reads it.
unsafe impl Send for Lent {}

// SAFETY: as above; through a shared reference it is only read.
unsafe impl Sync for Lent {}

impl Memory for Lent {
    fn as_slice(&self) -> &[u8] {
        self.as_ref()
    }

    fn as_mut_ptr(&self) -> *mut u8 {
        self.data.cast_mut()
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `data` and `len` describe the whole C-contiguous array. `_array` keeps it alive, and its
        // reference prevents numpy from resizing it.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

/// The memory of a C-contiguous, writable array that its owner has donated: it may be written to.
pub(crate) fn donate(array: &Bound<'_, PyUntypedArray>) -> Buffer {
    Buffer::Lent(Arc::new(lend(array)))
}

/// The memory of a C-contiguous array.
fn lend(array: &Bound<'_, PyUntypedArray>) -> Lent {
    let len = array.len() * array.dtype().itemsize();
    let object: *mut PyArrayObject = array.as_array_ptr();
    let data = match len {
        0 => std::ptr::NonNull::dangling().as_ptr(),
        // SAFETY: `object` is a live array object; its data pointer is valid while the array lives.
        _ => unsafe { (*object).fields.data }.cast_const().cast(),
    };
    Lent { data, len, _array: array.clone().unbind() }
}

fn narrow(wide: &Lent) -> AlignedBuffer {
    let bytes = wide.as_ref();
    let mut copy = aligned_with_capacity(bytes.len() / 2);
    for &element in bytes.as_chunks().0 {
        copy.extend_from_slice(&bf16::from_f32(f32::from_le_bytes(element)).to_le_bytes());
    }
    copy
}

/// The elements of an array of `bytes` and `str`, each prefixed by its length.
fn framed(name: &str, array: &Bound<'_, PyUntypedArray>) -> PyResult<AlignedBuffer> {
    let py = array.py();
    let mut framed = aligned_with_capacity(0);
    for element in array.getattr("flat")?.try_iter()? {
        let element = element?;
        let pushed = if let Ok(bytes) = element.cast::<PyBytes>() {
            push(&mut framed, bytes.as_bytes())
        } else if let Ok(text) = element.cast::<PyString>() {
            push(&mut framed, text.to_cow()?.as_bytes())
        } else if let Ok(bytes) = element.cast::<PyByteArray>() {
            push(&mut framed, &bytes.to_vec())
        } else {
            let class = class_of(&element);
            return Err(invalid(py, &format!("input '{name}' has an element of type {class}, expected bytes or str")));
        };
        pushed.map_err(|error| invalid(py, &format!("input '{name}': {error}")))?;
    }
    Ok(framed)
}

fn push(framed: &mut AlignedBuffer, element: &[u8]) -> penstock_core::Result<()> {
    framed.extend_from_slice(&bytes_tensor::prefix(element.len())?);
    framed.extend_from_slice(element);
    Ok(())
}

fn class_of(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "n object".to_owned(), |name| name.to_string())
}
