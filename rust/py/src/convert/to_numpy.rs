//! Conversion of a request's tensors to the arrays of a handler.
//!
//! # Rationale
//! The decoder has put every tensor into a 64-byte aligned buffer that no other request shares. The array is created
//! over that memory: without a copy, writable, and safe to retain, because the array's base object owns the buffer.
//!
//! # Limitations
//! A buffer that is a view of shared memory (a part of a split request) is copied first. BYTES become Python objects,
//! one by one. BF16 is widened to float32, unless the signature has another dtype.

use super::{array_form::ArrayForm, ragged, tensor_handle::TensorHandle};
use bytes::Bytes;
use half::bf16;
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods as _, PyArrayMethods as _, PyUntypedArray,
    npyffi::{NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, PY_ARRAY_API, npy_intp},
};
use penstock_core::{
    AlignedBuffer, Buffer, Memory, Tensor, aligned_with_capacity, bytes_tensor,
    copies::{self, Step},
};
use pyo3::{
    PyTypeInfo as _,
    exceptions::PyMemoryError,
    ffi,
    prelude::*,
    types::{PyBytes, PyString},
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The owner of an array's memory.
#[pyclass(frozen, name = "_TensorMemory", module = "penstock._core")]
pub(crate) struct TensorMemory(Owned);

impl TensorMemory {
    /// The `len` bytes at `data`; `None` unless they are in frozen memory, which no array can write to.
    pub(crate) fn frozen(&self, data: *const u8, len: usize) -> Option<Bytes> {
        let Owned::Frozen(memory) = &self.0 else { return None };
        let start = data.addr().checked_sub(memory.as_ptr().addr())?;
        let end = start.checked_add(len).filter(|&end| end <= memory.len())?;
        Some(memory.slice(start..end))
    }
}

/// Memory of an array.
pub(super) enum Owned {
    /// Without other references.
    Heap(AlignedBuffer),
    /// Filled before its first array was made, and read-only since: responses share it.
    Frozen(Bytes),
    /// Memory of a process instance, shared with the server, which does not touch it until the process releases it. Or
    /// memory of another model, which donated it.
    Lent(Arc<dyn Memory>),
}

impl Owned {
    fn data(&self) -> *mut u8 {
        match self {
            Self::Heap(memory) => memory.as_ptr().cast_mut(),
            Self::Frozen(memory) => memory.as_ptr().cast_mut(),
            Self::Lent(memory) => memory.as_mut_ptr(),
        }
    }

    /// Flags of an array over it. numpy does not set the flag for writing later: the array's base has no buffer.
    fn flags(&self) -> i32 {
        if matches!(self, Self::Frozen(_)) { NPY_ARRAY_CARRAY_RO } else { NPY_ARRAY_CARRAY }
    }

    fn len(&self) -> usize {
        match self {
            Self::Heap(memory) => memory.len(),
            Self::Frozen(memory) => memory.len(),
            Self::Lent(memory) => memory.as_slice().len(),
        }
    }
}

/// Converts one input: an array, a handle, or rows of different lengths.
pub(crate) fn array<'py>(py: Python<'py>, tensor: Tensor, form: &ArrayForm) -> PyResult<Bound<'py, PyAny>> {
    if form.opaque {
        return Ok(Bound::new(py, TensorHandle::new(tensor))?.into_any());
    }
    match tensor.lengths().cloned() {
        Some(lengths) => ragged::handed_in(values(py, tensor, form)?, &lengths, form),
        None => values(py, tensor, form),
    }
}

fn values<'py>(py: Python<'py>, tensor: Tensor, form: &ArrayForm) -> PyResult<Bound<'py, PyAny>> {
    let (_, shape, buffer) = tensor.into_parts();
    let Some(dtype) = &form.dtype else {
        return objects(py, buffer.as_slice(), &shape, form.text);
    };
    let memory = if form.widened { Owned::Heap(widen(buffer.as_slice())) } else { own(buffer) };
    over_memory(py, memory, &shape, dtype.bind(py))
}

fn own(buffer: Buffer) -> Owned {
    match buffer {
        Buffer::Aligned(memory) => Owned::Heap(memory),
        Buffer::Lent(memory) => Owned::Lent(memory),
        // Never an input: inputs that were left out are None.
        Buffer::Absent => Owned::Heap(aligned_with_capacity(0)),
        Buffer::Shared(bytes) => {
            copies::count(Step::HandIn, bytes.len());
            let mut memory = aligned_with_capacity(bytes.len());
            memory.extend_from_slice(&bytes);
            Owned::Heap(memory)
        }
    }
}

fn widen(narrow: &[u8]) -> AlignedBuffer {
    copies::count(Step::HandIn, narrow.len());
    let mut memory = aligned_with_capacity(narrow.len() * 2);
    for &element in narrow.as_chunks().0 {
        memory.extend_from_slice(&bf16::from_le_bytes(element).to_f32().to_le_bytes());
    }
    memory
}

/// Creates an array over `memory`, and makes the array keep it alive.
pub(super) fn over_memory<'py>(
    py: Python<'py>,
    memory: Owned,
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyAny>> {
    // A form that does not belong to the datatype would make numpy read beyond the memory.
    let needed = shape.iter().product::<usize>() * dtype.itemsize();
    if memory.len() < needed {
        let text = format!("an array of {needed} bytes over a tensor of {} bytes", memory.len());
        return Err(PyMemoryError::new_err(text));
    }
    let (data, flags) = (memory.data(), memory.flags());
    let base = Bound::new(py, TensorMemory(memory))?;
    let mut dims: SmallVec<[npy_intp; 4]> = shape.iter().map(|&dim| dim as npy_intp).collect();
    // SAFETY: `data` points to the memory that `base` owns, without other references, or whose array is read-only; moving
    // the buffer into `base` does not move that memory. It holds at least `shape` elements of `dtype`, as checked above, row by row, 64-byte
    // aligned. `PyArray_NewFromDescr` steals the reference of `into_dtype_ptr`, and `PyArray_SetBaseObject` that of
    // `into_ptr`, so the memory lives exactly as long as the array or a view of it.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            PyUntypedArray::type_object_raw(py),
            dtype.clone().into_dtype_ptr(),
            dims.len() as i32,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast(),
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr().cast::<ffi::PyObject>()) != 0 {
            return Err(PyErr::take(py).unwrap_or_else(|| PyMemoryError::new_err("an array could not be made")));
        }
        Ok(array)
    }
}

/// Creates an object array of the elements of a BYTES tensor, in one pass.
fn objects<'py>(py: Python<'py>, framed: &[u8], shape: &[usize], text: bool) -> PyResult<Bound<'py, PyAny>> {
    let element = |bytes: &[u8]| -> PyResult<Py<PyAny>> {
        Ok(match text {
            // The decoder has checked that it is UTF-8.
            true => PyString::new(py, &String::from_utf8_lossy(bytes)).into_any().unbind(),
            false => PyBytes::new(py, bytes).into_any().unbind(),
        })
    };
    copies::count(Step::HandIn, framed.len());
    let elements = bytes_tensor::elements(framed).map(element).collect::<PyResult<Vec<_>>>()?;
    Ok(PyArray1::from_vec(py, elements).reshape(shape)?.into_any())
}
