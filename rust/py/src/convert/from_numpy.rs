//! Conversion of a handler's arrays to output tensors, checked against the signature.
//!
//! # Rationale
//! A large array without other references is borrowed: the response is sent from its memory, which is freed after the
//! last byte. A large frozen array (`frozen.rs`) is sent from its memory too. All other arrays are copied once, because
//! a handler may retain a buffer and write to it again. They are copied with the interpreter held: a handler on another
//! thread may write to the same buffer as soon as it is released.
//!
//! # Limitations
//! An array counts as unshared when there is one strong reference to it and no weak one, and it owns its data or the
//! memory of an input or of another model's response. Views, buffers and memoryviews hold references. Code that
//! retains a bare pointer to such memory is not detected. numpy's flag for writing proves nothing: views that were made
//! before it was cleared can write, it can be set again, and unpickled arrays write to the memory of `bytes`.

use super::{
    array_form::ArrayForm,
    from_numbers::{self, wrong_element},
    from_objects,
    tensor_handle::TensorHandle,
    to_numpy::TensorMemory,
};
use crate::errors::class_of;
use bytes::Bytes;
use half::bf16;
use numpy::{
    PyArrayDescr, PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _,
    npyffi::{NPY_ARRAY_OWNDATA, PyArrayObject},
};
use penstock_core::{
    AlignedBuffer, Buffer, Error, Kind, Memory, ModelSpec, Result, Shape, Tensor, aligned_with_capacity,
    copies::{self, Step},
};
use pyo3::{ffi, intern, prelude::*};
use std::sync::Arc;

/// The size from which on arrays are borrowed; below it a copy costs less than the bookkeeping.
const BORROW_FROM: usize = 64 << 10;

/// Converts one output, whose rows have one length.
pub(crate) fn tensor(spec: &ModelSpec, index: usize, item: Bound<'_, PyAny>, form: &ArrayForm) -> Result<Tensor> {
    let declared = &spec.outputs[index];
    if form.opaque {
        return TensorHandle::taken(&item).ok_or_else(|| Error::new(Kind::Internal, "a tensor was handed on twice"));
    }
    let Some(dtype) = &form.dtype else {
        if let Some(tensor) = from_objects::single(&item) {
            return tensor;
        }
        return from_objects::tensor(&item, |what| {
            let (model, name) = (&spec.name, &declared.name);
            Error::handler(format!(
                "model '{model}' returned {what} for output '{name}', declared BYTES (bytes or str)"
            ))
        });
    };
    if let Some(number) = from_objects::number(&item, declared.datatype) {
        return Tensor::new(declared.datatype, Shape::new(), number)
            .map_err(|error| Error::handler(error.message().to_owned()));
    }
    let dtype = dtype.bind(item.py());
    let array = as_array(spec, index, item, dtype)?;
    let shape: Shape = array.shape().into();
    let buffer = if form.widened { narrow(&array) } else { take(array, form.copied_at_once) };
    Tensor::new(declared.datatype, shape, buffer).map_err(|error| Error::handler(error.message().to_owned()))
}

/// Returns a C-contiguous array of the declared dtype. Numbers and lists, which have no dtype, are converted to it.
fn as_array<'py>(
    spec: &ModelSpec,
    index: usize,
    item: Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> Result<Bound<'py, PyUntypedArray>> {
    let py = item.py();
    let numpy = || py.import("numpy");
    let unfit = |what: String| {
        Error::handler(format!(
            "model '{}' returned {what} for output '{}', declared {} ({dtype})",
            spec.name, spec.outputs[index].name, spec.outputs[index].datatype,
        ))
    };
    if item.is_none() {
        // numpy would convert None to a NaN. A handler that forgot its `return` returns None.
        return Err(unfit(class_of(&item)));
    }
    let array = match item.cast_into::<PyUntypedArray>() {
        Ok(array) => array,
        Err(error) => {
            let item = error.into_inner();
            let made = match item.hasattr("dtype").unwrap_or(false) {
                true => numpy().and_then(|numpy| numpy.call_method1("asarray", (&item,))),
                false => from_numbers::array(&item, dtype),
            };
            let made = made.and_then(|made| Ok(made.cast_into::<PyUntypedArray>()?));
            made.map_err(|error| unfit(wrong_element(py, &error).unwrap_or_else(|| class_of(&item))))?
        }
    };
    let own = array.dtype();
    if !own.is(dtype) && !own.is_equiv_to(dtype) {
        return Err(unfit(format!("an array of {own}")));
    }
    if array.is_c_contiguous() {
        return Ok(array);
    }
    let made = numpy().and_then(|numpy| numpy.call_method1("ascontiguousarray", (&array,)));
    // `ascontiguousarray` makes a scalar one-dimensional; a scalar is contiguous, so it never comes here.
    made.and_then(|made| Ok(made.cast_into::<PyUntypedArray>()?)).map_err(|_| unfit("an array".to_owned()))
}

/// Keeps a borrowed array alive until its last byte is sent.
struct Borrowed {
    data: *const u8,
    len: usize,
    _array: Py<PyUntypedArray>,
}

// SAFETY: the memory behind `data` belongs to an array to which this is the only reference, and there is no weak one,
// so no Python code can reach it and reading it from another thread is not a race. Where other references may exist
// (`copied_at_once`), it is read on this thread only, before the interpreter is released. Dropping a `Py` without
// the interpreter is allowed: PyO3 keeps the release for the next thread that attaches.
unsafe impl Send for Borrowed {}
// SAFETY: as above; through a shared reference it is only read.
unsafe impl Sync for Borrowed {}

impl Memory for Borrowed {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: `data` and `len` describe the whole C-contiguous array. `_array` keeps it alive, and nothing
        // else refers to it, so it is neither freed nor written. The holder of the only reference to this may write by
        // `as_mut_ptr`, and has no slice at that time.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }

    fn as_mut_ptr(&self) -> *mut u8 {
        self.data.cast_mut()
    }
}

/// The bytes of a C-contiguous array: not copied if it is large, and frozen or unshared. With `copied_at_once` they are
/// always borrowed, because the caller copies them while it holds the interpreter.
pub(crate) fn take(array: Bound<'_, PyUntypedArray>, copied_at_once: bool) -> Buffer {
    let (data, len) = memory(&array);
    // First: the memory of an unshared frozen array may be that of another response.
    if len >= BORROW_FROM
        && let Some(bytes) = frozen(&array)
    {
        return Buffer::Shared(bytes);
    }
    if copied_at_once || len >= BORROW_FROM && is_ours_alone(&array) {
        return Buffer::Lent(Arc::new(Borrowed { data, len, _array: array.unbind() }));
    }
    copies::count(Step::HandOut, len);
    Buffer::Aligned(copy(&array))
}

/// The bytes of a C-contiguous array in frozen memory, shared; `None` for other arrays.
pub(super) fn frozen(array: &Bound<'_, PyUntypedArray>) -> Option<Bytes> {
    let (data, len) = memory(array);
    let mut owner = array.as_any().clone();
    while owner.is_instance_of::<PyUntypedArray>() {
        owner = owner.getattr(intern!(array.py(), "base")).ok()?;
    }
    owner.cast::<TensorMemory>().ok()?.get().frozen(data, len)
}

/// Copies the bytes of a C-contiguous array.
pub(super) fn copy(array: &Bound<'_, PyUntypedArray>) -> AlignedBuffer {
    let (data, len) = memory(array);
    // SAFETY: as in `Borrowed::as_slice`, and the interpreter is held, so no Python code runs meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(data, len) };
    let mut copy = aligned_with_capacity(len);
    copy.extend_from_slice(bytes);
    copy
}

fn memory(array: &Bound<'_, PyUntypedArray>) -> (*const u8, usize) {
    let len = array.len() * array.dtype().itemsize();
    if len == 0 {
        return (std::ptr::NonNull::dangling().as_ptr(), 0);
    }
    let object: *mut PyArrayObject = array.as_array_ptr();
    // SAFETY: `object` is a live array object; its data pointer is valid while the array lives.
    (unsafe { (*object).fields.data }.cast_const().cast(), len)
}

/// Returns whether this is the only strong reference to an object.
pub(crate) fn is_last(object: &Bound<'_, PyAny>) -> bool {
    let object = object.as_ptr();
    #[cfg(not(Py_GIL_DISABLED))]
    // SAFETY: `object` is a live object, and the interpreter is held.
    let last = unsafe { ffi::Py_REFCNT(object) == 1 };
    // Without the GIL, another thread may be about to take a reference although the count is one.
    #[cfg(Py_GIL_DISABLED)]
    // SAFETY: `object` is a live object, and this thread is attached.
    let last = unsafe { ffi::PyUnstable_Object_IsUniquelyReferenced(object) != 0 };
    last
}

fn is_ours_alone(array: &Bound<'_, PyUntypedArray>) -> bool {
    if !is_last(array) {
        return false;
    }
    let object: *mut PyArrayObject = array.as_array_ptr();
    // SAFETY: `object` is a live array object with no other reference.
    let (base, flags, weak) = unsafe { ((*object).fields.base, (*object).fields.flags, (*object).fields.weakreflist) };
    if !weak.is_null() {
        // A weak reference leads to the array as well as a strong one.
        return false;
    }
    if base.is_null() {
        return flags & NPY_ARRAY_OWNDATA != 0;
    }
    // SAFETY: the array holds a reference to its base.
    let base = unsafe { pyo3::Borrowed::from_ptr(array.py(), base) };
    // No other array, view or buffer refers to it, and it has no weak references.
    is_last(&base) && base.is_instance_of::<TensorMemory>()
}

fn narrow(array: &Bound<'_, PyUntypedArray>) -> Buffer {
    let (data, len) = memory(array);
    copies::count(Step::HandOut, len / 2);
    // SAFETY: as in `take`.
    let bytes = unsafe { std::slice::from_raw_parts(data, len) };
    let mut copy = aligned_with_capacity(len / 2);
    for &element in bytes.as_chunks().0 {
        copy.extend_from_slice(&bf16::from_f32(f32::from_le_bytes(element)).to_le_bytes());
    }
    Buffer::Aligned(copy)
}
