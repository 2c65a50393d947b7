//! `_core.PeerClient`: what a handler calls other models by.

use super::{audience::Audience, call::PeerCall, call_graph::Caller, request, stream::PeerStream};
use crate::{attach::detached, convert::parameters::parameter, errors::raised};
use penstock_core::{Error, InferRequest, Kind, Model, ModelSpec, RequestMetadata};
use pyo3::{prelude::*, types::PyDict};
use std::sync::Arc;

/// What of a handler's callers holds for the models that it calls.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) audience: Audience,
    /// The most urgent one's; 0 if none says.
    pub(crate) priority: u64,
    /// Id and headers, if there is one only.
    pub(crate) caller: RequestMetadata,
}

/// One batch's way to other models.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct PeerClient {
    caller: Arc<Caller>,
    spec: Arc<ModelSpec>,
    carried: Carried,
}

impl PeerClient {
    /// The way of a batch of the model `spec`, whose place among the others is `caller`.
    pub(crate) fn new(caller: Arc<Caller>, spec: Arc<ModelSpec>, carried: Carried) -> Self {
        Self { caller, spec, carried }
    }
}

/// A call's arguments as Python gives them.
struct Given<'py> {
    positional: Vec<Bound<'py, PyAny>>,
    named: Bound<'py, PyDict>,
    parameters: Bound<'py, PyDict>,
}

impl PeerClient {
    /// The model of that name, which can be called from here.
    fn find(&self, py: Python<'_>, name: &str, version: Option<&str>) -> PyResult<Arc<Model>> {
        // The last reference to a model that is replaced may go here.
        let model = detached(py, || self.caller.find(&self.spec, name, version)).map_err(|error| raised(py, &error))?;
        if model.spec().sequences.is_some() {
            let text =
                format!("model '{}' keeps sequences: a client can call it, and no other model", model.spec().name);
            return Err(raised(py, &Error::new(Kind::Unsupported, text)));
        }
        Ok(model)
    }

    /// A request to it, on behalf of those who call here.
    fn request(&self, spec: &ModelSpec, given: Given<'_>) -> PyResult<InferRequest> {
        let mut request = request::request(spec, given.positional, &given.named)?;
        request.deadline = self.carried.audience.deadline;
        request.schedule.priority = self.carried.priority;
        if spec.wants_context {
            let mut caller = Box::new(self.carried.caller.clone());
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
    /// Makes a call. It is sent when it is first waited for.
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
            return Err(raised(py, &Error::new(Kind::Unsupported, text)));
        }
        let request = self.request(model.spec(), Given { positional, named, parameters })?;
        Ok(PeerCall::new(model, request, self.carried.audience.clone()))
    }

    /// The clients' requests that a model has now, waiting or computed.
    #[expect(clippy::needless_pass_by_value, reason = "Python's strings are extracted into owned ones")]
    fn in_flight(&self, py: Python<'_>, name: String, version: Option<String>) -> PyResult<i64> {
        Ok(self.find(py, &name, version.as_deref())?.metrics().in_flight.get())
    }

    /// Makes a call that is answered in pieces. It is sent when they are first waited for.
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
        let request = self.request(model.spec(), Given { positional, named, parameters })?;
        Ok(PeerStream::new(model, request, self.carried.audience.clone()))
    }
}
