//! State of sequences on an instance: one dict each, on the instance's thread.

use crate::errors;
use penstock_core::{ModelSpec, SequenceId, Step};
use pyo3::{IntoPyObjectExt as _, prelude::*, types::PyDict};
use std::collections::HashMap;

/// A step of a sequence, and the sequence's state.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct SequenceInfo {
    id: SequenceId,
    #[pyo3(get)]
    start: bool,
    #[pyo3(get)]
    end: bool,
    #[pyo3(get)]
    state: Py<PyDict>,
}

#[pymethods]
impl SequenceInfo {
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.id {
            SequenceId::Number(number) => number.into_bound_py_any(py),
            SequenceId::Text(text) => text.as_ref().into_bound_py_any(py),
        }
    }

    fn __repr__(&self) -> String {
        let word = |flag| if flag { "True" } else { "False" };
        format!("SequenceInfo(id={}, start={}, end={})", self.id, word(self.start), word(self.end))
    }
}

/// The sequences of an instance.
#[derive(Debug)]
pub(crate) struct Sequences {
    states: HashMap<SequenceId, SequenceState>,
    /// The handler's function for sequences that end.
    close: Py<PyAny>,
}

#[derive(Debug)]
struct SequenceState {
    state: Py<PyDict>,
    ended: bool,
}

impl Sequences {
    /// No sequences yet, for a handler that was just built.
    pub(crate) fn new(close: Py<PyAny>) -> Self {
        Self { states: HashMap::new(), close }
    }

    /// Creates the handler's view of one step. A start begins with an empty state.
    pub(crate) fn step(&mut self, py: Python<'_>, spec: &ModelSpec, step: &Step) -> PyResult<Py<SequenceInfo>> {
        if step.start {
            self.close(py, spec, &step.id);
        }
        let fresh = || SequenceState { state: PyDict::new(py).unbind(), ended: false };
        let states = self.states.entry(step.id.clone()).or_insert_with(fresh);
        states.ended = step.end;
        let state = states.state.clone_ref(py);
        Py::new(py, SequenceInfo { id: step.id.clone(), start: step.start, end: step.end, state })
    }

    /// Closes a sequence, if the instance has it. The log gets exceptions of the handler.
    pub(crate) fn close(&mut self, py: Python<'_>, spec: &ModelSpec, id: &SequenceId) {
        let Some(SequenceState { state, ended }) = self.states.remove(id) else { return };
        let closed = Py::new(py, SequenceInfo { id: id.clone(), start: false, end: ended, state })
            .and_then(|sequence| self.close.call1(py, (sequence,)));
        if let Err(error) = closed {
            let _ = errors::from_handler(py, spec, &error);
        }
    }

    /// Closes all sequences.
    pub(crate) fn close_all(&mut self, py: Python<'_>, spec: &ModelSpec) {
        let states: Vec<SequenceId> = self.states.keys().cloned().collect();
        states.iter().for_each(|id| self.close(py, spec, id));
    }
}
