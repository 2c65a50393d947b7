//! Tensors that pass between models without an array, and donated arrays.

use penstock_core::Tensor;
use pyo3::{exceptions::PyValueError, prelude::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `_core.TensorHandle`: a tensor that Python only passes on.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct TensorHandle(Mutex<Option<Tensor>>);

impl TensorHandle {
    pub(crate) fn new(tensor: Tensor) -> Self {
        Self(Mutex::new(Some(tensor)))
    }

    /// Takes the tensor; `None` if `object` is not a handle, or is empty.
    pub(crate) fn taken(object: &Bound<'_, PyAny>) -> Option<Tensor> {
        object.cast::<Self>().ok()?.get().lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Tensor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl TensorHandle {
    /// Returns a second handle of the same tensor, for another model. Copies nothing.
    fn share(&self) -> PyResult<Self> {
        let mut held = self.lock();
        let tensor = held.take().ok_or_else(|| PyValueError::new_err("the tensor was handed on"))?.into_shared();
        *held = Some(tensor.clone());
        Ok(Self::new(tensor))
    }
}

/// `penstock.Donated`: an array whose memory is given to the called model.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Donated(Mutex<Option<Py<PyAny>>>);

#[pymethods]
impl Donated {
    #[new]
    fn new(array: Py<PyAny>) -> Self {
        Self(Mutex::new(Some(array)))
    }

    fn __repr__(&self) -> &'static str {
        "Donated(...)"
    }
}

impl Donated {
    /// Takes the array; `None` after the first time.
    pub(crate) fn take(&self) -> Option<Py<PyAny>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
