//! `penstock.RequestInfo`: one request of a batch, for its handler.

use super::{request_tokens::RequestTokens, sequences::SequenceInfo};
use crate::convert::{client_identity::ClientIdentity, parameters::to_python, token_counts::TokenCounts};
use penstock_core::{CancelProbe, CompletionQueue, ModelSpec, Part, RequestMetadata};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::{sync::Arc, time::Instant};

/// Metadata of one client's request.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct RequestInfo {
    pub(super) caller: RequestMetadata,
    pub(super) spec: Arc<ModelSpec>,
    #[pyo3(get)]
    pub(super) rows: usize,
    #[pyo3(get)]
    pub(super) priority: u64,
    #[pyo3(get)]
    pub(super) sequence: Option<Py<SequenceInfo>>,
    pub(super) until: Option<Instant>,
    pub(super) probe: Option<CancelProbe>,
    /// The queue of the client's I/O thread.
    pub(super) completions: Option<CompletionQueue>,
    /// The requested outputs of a raw request.
    pub(super) asked: Option<Box<[Box<str>]>>,
    pub(super) tokens: RequestTokens,
}

impl RequestInfo {
    /// Takes the metadata of a request, unless it is needed later. Its batch has it at a place, and was cut at a time.
    pub(super) fn of(
        part: &mut Part,
        spec: &Arc<ModelSpec>,
        sequence: Option<Py<SequenceInfo>>,
        (place, cut_at): (usize, Instant),
    ) -> Self {
        // A batch that may run again, and a raw request, need their metadata later.
        let keeps = spec.retries_on_oom() || spec.raw_requests;
        let caller = if keeps { part.request.metadata.clone() } else { part.request.metadata.take() };
        let traced = part.request.context.as_ref().and_then(|context| context.trace.clone());
        Self {
            caller: caller.map(|caller| *caller).unwrap_or_default(),
            spec: Arc::clone(spec),
            rows: part.request.rows,
            priority: part.request.schedule.priority,
            sequence,
            until: part.request.deadline,
            probe: part.cancel_probe(),
            completions: part.completions().filter(|_| spec.raw_requests).cloned(),
            asked: part.request.raw.as_ref().and_then(|asked| asked.outputs.clone()),
            tokens: RequestTokens::new(place, cut_at, traced),
        }
    }
}

#[pymethods]
impl RequestInfo {
    #[getter]
    pub(super) fn id(&self) -> &str {
        &self.caller.id
    }

    #[getter]
    pub(super) fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        self.caller.headers.iter().try_for_each(|(name, value)| headers.set_item(name, value))?;
        Ok(headers)
    }

    #[getter]
    pub(super) fn client(&self) -> ClientIdentity {
        ClientIdentity::of(self.caller.client.as_ref())
    }

    #[getter]
    pub(super) fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parameters = PyDict::new(py);
        for (name, value) in &self.caller.parameters {
            parameters.set_item(name, to_python(py, value)?)?;
        }
        Ok(parameters)
    }

    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        if let Some(asked) = &self.asked {
            return PyTuple::new(py, asked.iter().map(|name| &**name));
        }
        let outputs = &self.spec.outputs;
        match &self.caller.outputs {
            None => PyTuple::new(py, outputs.iter().map(|output| &*output.name)),
            Some(asked) => {
                let names = asked.iter().filter_map(|&index| outputs.get(index)).map(|output| &*output.name);
                PyTuple::new(py, names.collect::<Vec<_>>())
            }
        }
    }

    #[getter]
    pub(super) fn deadline(&self) -> Option<f64> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    #[getter]
    pub(super) fn cancelled(&self) -> bool {
        self.probe.as_ref().is_some_and(CancelProbe::is_cancelled)
    }

    #[pyo3(signature = (*, prompt = None, completion = None, finish_reason = None, operation = None))]
    pub(super) fn record_tokens(
        &self,
        prompt: Option<Bound<'_, PyAny>>,
        completion: Option<Bound<'_, PyAny>>,
        finish_reason: Option<String>,
        operation: Option<String>,
    ) -> PyResult<()> {
        self.tokens.record(&self.spec, TokenCounts { prompt, completion, finish_reason, operation })
    }

    fn __repr__(&self) -> String {
        format!("RequestInfo(id={:?}, rows={})", self.caller.id, self.rows)
    }
}
