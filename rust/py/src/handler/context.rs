//! `penstock.Context`: requests of the current batch, for its handler.

use super::{
    metrics::HandlerMetrics,
    request_info::RequestInfo,
    response_parameters::ResponseParameters,
    sequences::{SequenceInfo, Sequences},
};
use crate::{
    convert::client_identity::ClientIdentity,
    peers::{Audience, Caller, CallerContext, PeerClient},
};
use penstock_core::{
    Job, ModelSpec, Parameters, RequestMetadata, TraceText,
    metrics::{Change, Labels, MetricUpdate, ModelMetrics, check_increment},
};
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    intern,
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::{sync::Arc, time::Instant};

/// Context of a handler call.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Context {
    requests: Vec<Py<RequestInfo>>,
    spec: Arc<ModelSpec>,
    metrics: Arc<ModelMetrics>,
    answer: ResponseParameters,
    /// The models that the handler may call.
    caller: Arc<Caller>,
    /// The span of the batch.
    trace: Option<TraceText>,
    /// Time of the cut of the batch.
    began: Instant,
}

impl Context {
    /// Creates the context of one batch.
    pub(crate) fn of(py: Python<'_>, job: &mut Job, sequences: &mut Sequences, caller: &Arc<Caller>) -> PyResult<Self> {
        let spec = Arc::clone(job.spec());
        let began = job.cut_at();
        let requests = job
            .parts_mut()
            .iter_mut()
            .enumerate()
            .map(|(place, part)| {
                let step = part.request.schedule.step.take().filter(|_| spec.sequences.is_some());
                let sequence = step.map(|step| sequences.step(py, &spec, &step)).transpose()?;
                Py::new(py, RequestInfo::of(part, &spec, sequence, (place, began)))
            })
            .collect::<PyResult<_>>()?;
        let metrics = Arc::clone(job.metrics());
        let (caller, trace) = (Arc::clone(caller), job.trace().cloned());
        Ok(Self { requests, spec, metrics, answer: ResponseParameters::default(), caller, trace, began })
    }

    /// The properties of the requests that apply to calls of other models.
    fn caller_context(&self) -> CallerContext {
        let requests = || self.requests.iter().map(Py::get);
        let (caller, completions, trace) = match &self.requests[..] {
            [one] => {
                let one = one.get();
                let caller = RequestMetadata { parameters: Parameters::new(), ..one.caller.clone() };
                (caller, one.completions.clone(), one.tokens.trace().cloned())
            }
            _ => (RequestMetadata::default(), None, None),
        };
        CallerContext {
            audience: Audience {
                // The latest deadline: a call continues while any client waits.
                deadline: requests()
                    .map(|one| one.until)
                    .collect::<Option<Vec<_>>>()
                    .and_then(|all| all.into_iter().max()),
                probes: requests().map(|one| one.probe.clone()).collect::<Option<_>>().unwrap_or_default(),
                completions,
            },
            priority: requests().map(|one| one.priority).filter(|&priority| priority > 0).min().unwrap_or(0),
            caller,
            began: self.began,
            trace,
        }
    }

    /// Counts the tokens that the handler recorded, at its end.
    pub(crate) fn count_tokens(&self) {
        let ended = self.requests.iter().filter_map(|request| request.get().tokens.end());
        for usage in ended {
            // Nothing is refused: the counts were checked, and have no names.
            let _ = self.metrics.record(MetricUpdate::tokens(*usage));
        }
    }

    /// Takes the parameters that the handler set.
    pub(crate) fn take_answer(&self) -> Parameters {
        self.answer.take()
    }

    /// A header of the first request that has it.
    fn header(&self, name: &str) -> Option<&str> {
        self.requests.iter().find_map(|request| request.get().caller.headers.get(name))
    }

    fn only<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, RequestInfo>> {
        match &self.requests[..] {
            [one] => Ok(one.bind(py)),
            many => Err(PyRuntimeError::new_err(format!(
                "this batch joins {} requests, so there is no single one: use ctx.requests",
                many.len()
            ))),
        }
    }
}

#[pymethods]
impl Context {
    #[getter]
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.requests)
    }

    #[getter]
    fn request_id(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.only(py)?.get().id().to_owned())
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.only(py)?.get().headers(py)
    }

    #[getter]
    fn client(&self, py: Python<'_>) -> PyResult<ClientIdentity> {
        Ok(self.only(py)?.get().client())
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.only(py)?.get().parameters(py)
    }

    #[getter]
    fn deadline(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.only(py)?.get().deadline())
    }

    #[getter]
    fn sequence<'py>(&self, py: Python<'py>) -> PyResult<Option<Py<SequenceInfo>>> {
        Ok(self.only(py)?.get().sequence.as_ref().map(|sequence| sequence.clone_ref(py)))
    }

    #[getter]
    fn traceparent(&self) -> Option<&str> {
        self.trace.as_ref().map(|trace| &*trace.parent).or_else(|| self.header("traceparent"))
    }

    #[getter]
    fn tracestate(&self) -> Option<&str> {
        match &self.trace {
            Some(trace) => Some(&*trace.state).filter(|state| !state.is_empty()),
            None => self.header("tracestate"),
        }
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.requests.iter().all(|request| request.get().cancelled())
    }

    #[getter]
    fn model_name(&self) -> &str {
        &self.spec.name
    }

    #[getter]
    fn model_version(&self) -> &str {
        &self.spec.version
    }

    #[getter]
    fn models<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let link = PeerClient::new(Arc::clone(&self.caller), Arc::clone(&self.spec), self.caller_context());
        py.import(intern!(py, "penstock._runtime.peers"))?.call_method1(intern!(py, "Peers"), (link,))
    }

    #[getter]
    fn logger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("logging")?.call_method1("getLogger", (format!("penstock.{}", self.spec.name),))
    }

    #[getter]
    fn log<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let ids = self.requests.iter().map(|request| request.get().id().to_owned()).collect::<Vec<_>>();
        let who = (&*self.spec.name, &*self.spec.version, ids);
        py.import("penstock.logs")?.call_method1("adapter", who)
    }

    fn set_parameter(&self, name: String, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.answer.set(name, value)
    }

    #[getter]
    fn metrics(&self) -> HandlerMetrics {
        HandlerMetrics::new(Arc::clone(&self.spec), Arc::clone(&self.metrics))
    }

    #[pyo3(signature = (*, prompt = None, completion = None, finish_reason = None, operation = None))]
    fn record_tokens(
        &self,
        py: Python<'_>,
        prompt: Option<Bound<'_, PyAny>>,
        completion: Option<Bound<'_, PyAny>>,
        finish_reason: Option<String>,
        operation: Option<String>,
    ) -> PyResult<()> {
        self.only(py)?.get().record_tokens(prompt, completion, finish_reason, operation)
    }

    #[pyo3(signature = (name, value = 1.0))]
    fn counter(&self, py: Python<'_>, name: &str, value: f64) -> PyResult<()> {
        check_increment(name, value).map_err(PyValueError::new_err)?;
        let kept = MetricUpdate { name: name.to_owned(), labels: Labels::new(), change: Change::Custom(value) };
        self.metrics().keep(py, kept)
    }
}
