//! `penstock.Row`: a row of an iterative model, for its handler.

use super::{request_info::RequestInfo, response_parameters::ResponseParameters};
use crate::{convert::to_numpy, definition::HandlerSpec};
use penstock_core::{Inputs, Job, Parameters, Result, Shape, Tensor, TokenUsage, batch::gather::split};
use pyo3::{
    exceptions::PyKeyError,
    gc::{PyTraverseError, PyVisit},
    prelude::*,
    types::PyDict,
};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// A row of an iterative model.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Row {
    #[pyo3(get)]
    inputs: Py<PyDict>,
    #[pyo3(get)]
    request: Py<RequestInfo>,
    #[pyo3(get)]
    index: usize,
    /// Rows of the request that have not left.
    open: Arc<AtomicUsize>,
    step: AtomicU64,
    /// State that the handler keeps of the row.
    state: Mutex<Option<Py<PyAny>>>,
    answer: ResponseParameters,
}

impl Row {
    /// The rows of a request that joins.
    pub(super) fn all_of(py: Python<'_>, handler_spec: &HandlerSpec, job: &mut Job) -> PyResult<Vec<Py<Self>>> {
        let (spec, rows, cut_at) = (Arc::clone(job.spec()), job.rows(), job.cut_at());
        let inputs = job.gather();
        let Some(part) = job.parts_mut().first_mut() else { return Ok(Vec::new()) };
        let request = Py::new(py, RequestInfo::of(part, &spec, None, (0, cut_at)))?;
        let open = Arc::new(AtomicUsize::new(rows));
        let each = if rows == 1 { vec![(inputs, 1)] } else { split(inputs, rows, 1) };
        let row = |(index, (inputs, _)): (usize, (Inputs, usize))| -> PyResult<Py<Self>> {
            let arrays = PyDict::new(py);
            for ((declared, form), input) in spec.inputs.iter().zip(&handler_spec.inputs).zip(inputs) {
                let array = match input {
                    Some(tensor) => {
                        let tensor =
                            without_batch_axis(tensor).map_err(|error| crate::errors::invalid(py, error.message()))?;
                        to_numpy::array(py, tensor, form)?
                    }
                    None => py.None().into_bound(py),
                };
                arrays.set_item(&*declared.name, array)?;
            }
            let row = Self {
                inputs: arrays.unbind(),
                request: request.clone_ref(py),
                index,
                open: Arc::clone(&open),
                step: AtomicU64::new(0),
                state: Mutex::default(),
                answer: ResponseParameters::default(),
            };
            Py::new(py, row)
        };
        each.into_iter().enumerate().map(row).collect()
    }

    /// Sets the number of its steps before the next one.
    pub(super) fn begin_step(&self, step: u64) {
        self.step.store(step, Ordering::Relaxed);
    }

    /// Takes the parameters that the handler set for its next response.
    pub(super) fn take_parameters(&self) -> Parameters {
        self.answer.take()
    }

    /// Records that the row has left. With the last one of its request, returns the tokens that were recorded.
    pub(super) fn left(&self) -> Option<Box<TokenUsage>> {
        let is_last = self.open.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last { self.request.get().tokens.end() } else { None }
    }

    fn swap_state(&self, state: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), state)
    }
}

#[pymethods]
impl Row {
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let inputs = self.inputs.bind(py);
        inputs.get_item(name)?.ok_or_else(|| {
            let names = inputs.keys().iter().map(|name| name.to_string()).collect::<Vec<_>>().join(", ");
            PyKeyError::new_err(format!("a row has no input {name:?}, it has {names}"))
        })
    }

    #[getter]
    fn step(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    #[getter]
    fn state(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|state| state.clone_ref(py))
    }

    #[setter]
    fn set_state(&self, state: Option<Py<PyAny>>) {
        // The old state may run Python code when it is dropped, so the lock is free by then.
        drop(self.swap_state(state));
    }

    #[getter]
    fn request_id(&self) -> &str {
        self.request.get().id()
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.request.get().parameters(py)
    }

    #[getter]
    fn deadline(&self) -> Option<f64> {
        self.request.get().deadline()
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.request.get().cancelled()
    }

    fn set_parameter(&self, name: String, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.answer.set(name, value)
    }

    fn __repr__(&self) -> String {
        format!("Row(request_id={:?}, index={}, step={})", self.request_id(), self.index, self.step())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.inputs)?;
        visit.call(&self.request)?;
        match self.state.try_lock() {
            Ok(state) => visit.call(&*state),
            // Being set. A later collection visits it.
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        drop(self.swap_state(None));
    }
}

fn without_batch_axis(tensor: Tensor) -> Result<Tensor> {
    let (datatype, shape, buffer) = tensor.into_parts();
    Tensor::new(datatype, Shape::from_slice(shape.get(1..).unwrap_or_default()), buffer)
}
