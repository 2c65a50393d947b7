//! `_core.PeerClient`: the client with which a handler calls other models.

use super::{audience::Audience, call::PeerCall, call_graph::Caller, request, stream::PeerStream};
use crate::{
    attach::detached,
    convert::{parameters::parameter, token_counts::TokenCounts},
    errors::{of_wrong_call, raised},
};
use penstock_core::{Error, InferRequest, Kind, Model, ModelSpec, RequestMetadata, Traced, metrics::MetricUpdate};
use pyo3::{prelude::*, types::PyDict};
use std::{sync::Arc, time::Instant};

/// Properties of a handler's requests that apply to its calls of other models.
#[derive(Debug)]
pub(crate) struct CallerContext {
    pub(crate) audience: Audience,
    /// The most urgent priority; 0 without one.
    pub(crate) priority: u64,
    /// Id and headers of the only request; empty with several.
    pub(crate) caller: RequestMetadata,
    /// Time of the cut of the batch.
    pub(crate) began: Instant,
    /// Trace of the only request, if it is traced.
    pub(crate) trace: Option<Arc<Traced>>,
}

/// Client of one batch.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct PeerClient {
    caller: Arc<Caller>,
    spec: Arc<ModelSpec>,
    caller_context: CallerContext,
}

impl PeerClient {
    /// A client for a batch of the model `spec`, which is `caller` in the graph.
    pub(crate) fn new(caller: Arc<Caller>, spec: Arc<ModelSpec>, caller_context: CallerContext) -> Self {
        Self { caller, spec, caller_context }
    }
}

/// The arguments of a call in Python.
struct Given<'py> {
    positional: Vec<Bound<'py, PyAny>>,
    named: Bound<'py, PyDict>,
    parameters: Bound<'py, PyDict>,
}

impl PeerClient {
    /// Finds a model that can be called from here.
    fn find(&self, py: Python<'_>, name: &str, version: Option<&str>) -> PyResult<Arc<Model>> {
        // The last reference to a replaced model may be dropped here.
        let found = detached(py, || self.caller.find(&self.spec, name, version));
        let model = found.map_err(|error| match error.kind() {
            // The model may be ready again for the client's next request. A forbidden call is the handler's error.
            Kind::Unavailable | Kind::Handler => raised(py, &error),
            _ => of_wrong_call(py, raised(py, &error)),
        })?;
        if model.spec().sequences.is_some() {
            let text =
                format!("model '{}' keeps sequences: a client can call it, and no other model", model.spec().name);
            return Err(of_wrong_call(py, raised(py, &Error::new(Kind::Unsupported, text))));
        }
        Ok(model)
    }

    /// Creates a request on behalf of the audience.
    fn request(&self, spec: &ModelSpec, given: Given<'_>) -> PyResult<InferRequest> {
        let mut request = request::request(spec, given.positional, &given.named)?;
        request.deadline = self.caller_context.audience.deadline;
        request.schedule.priority = self.caller_context.priority;
        if spec.wants_context {
            let mut caller = Box::new(self.caller_context.caller.clone());
            for (name, value) in given.parameters {
                caller.parameters.push((name.extract()?, parameter(&value)?));
            }
            request.metadata = Some(caller);
        }
        Ok(request)
    }
}

#[pymethods]
impl PeerClient {
    /// Creates a call. The request is sent at the first wait or poll.
    #[expect(clippy::needless_pass_by_value, reason = "Python's strings are extracted into owned ones")]
    fn call<'py>(
        &self,
        py: Python<'py>,
        name: String,
        version: Option<String>,
        positional: Vec<Bound<'py, PyAny>>,
        named: Bound<'py, PyDict>,
        parameters: Bound<'py, PyDict>,
    ) -> PyResult<PeerCall> {
        let model = self.find(py, &name, version.as_deref())?;
        if model.spec().streams && !model.spec().raw_requests {
            let text =
                format!("model '{0}' streams its answers: write ctx.models['{0}'].stream(...)", model.spec().name);
            return Err(of_wrong_call(py, raised(py, &Error::new(Kind::Unsupported, text))));
        }
        let request = self.request(model.spec(), Given { positional, named, parameters });
        let request = request.map_err(|error| of_wrong_call(py, error))?;
        Ok(PeerCall::new(model, request, self.caller_context.audience.clone()))
    }

    /// Returns the client requests that a model has now, waiting or computed.
    #[expect(clippy::needless_pass_by_value, reason = "Python's strings are extracted into owned ones")]
    fn in_flight(&self, py: Python<'_>, name: String, version: Option<String>) -> PyResult<i64> {
        Ok(self.find(py, &name, version.as_deref())?.metrics().in_flight.get())
    }

    /// Counts the tokens of one request to a model, which this handler knows.
    #[expect(clippy::needless_pass_by_value, reason = "Python's strings are extracted into owned ones")]
    fn record_tokens(
        &self,
        py: Python<'_>,
        name: String,
        version: Option<String>,
        counts: TokenCounts<'_>,
    ) -> PyResult<()> {
        let usage = counts.usage(self.caller_context.began)?;
        let model = self.find(py, &name, version.as_deref())?;
        if let Some(trace) = &self.caller_context.trace {
            trace.set_usage(model.spec(), usage.clone());
        }
        // Nothing is refused: the counts were checked, and have no names.
        let _ = model.metrics().record(MetricUpdate::tokens(usage));
        Ok(())
    }

    /// Creates a call with a streamed response. The request is sent at the first wait or poll.
    #[expect(clippy::needless_pass_by_value, reason = "Python's strings are extracted into owned ones")]
    fn stream<'py>(
        &self,
        py: Python<'py>,
        name: String,
        version: Option<String>,
        positional: Vec<Bound<'py, PyAny>>,
        named: Bound<'py, PyDict>,
        parameters: Bound<'py, PyDict>,
    ) -> PyResult<PeerStream> {
        let model = self.find(py, &name, version.as_deref())?;
        let request = self.request(model.spec(), Given { positional, named, parameters });
        let request = request.map_err(|error| of_wrong_call(py, error))?;
        Ok(PeerStream::new(model, request, self.caller_context.audience.clone()))
    }
}
