//! Tensors between models that no handler looks into, and arrays that are given away.

use penstock_core::Tensor;
use pyo3::{exceptions::PyValueError, prelude::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `_core.TensorHandle`: a tensor that Python only hands on.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct TensorHandle(Mutex<Option<Tensor>>);

impl TensorHandle {
    pub(crate) fn new(tensor: Tensor) -> Self {
        Self(Mutex::new(Some(tensor)))
    }

    /// The tensor, if `object` still holds one.
    pub(crate) fn taken(object: &Bound<'_, PyAny>) -> Option<Tensor> {
        object.cast::<Self>().ok()?.get().lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Tensor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl TensorHandle {
    /// The same tensor once more, for one more model. Copies nothing.
    fn share(&self) -> PyResult<Self> {
        let mut held = self.lock();
        let tensor = held.take().ok_or_else(|| PyValueError::new_err("the tensor was handed on"))?.into_shared();
        *held = Some(tensor.clone());
        Ok(Self::new(tensor))
    }
}

/// `penstock.Donated`: an array that is given away.
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
    /// The array, the first time.
    pub(crate) fn take(&self) -> Option<Py<PyAny>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
