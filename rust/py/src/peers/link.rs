//! `_core.Link`: what a handler calls other models by.

use super::{call::PeerCall, request, table::Caller};
use crate::{attach::detached, client::raised, context::parameter};
use penstock_core::{CallerInfo, CancelProbe, Error, Kind, ModelSpec};
use pyo3::{prelude::*, types::PyDict};
use std::{sync::Arc, time::Instant};

/// What of a handler's callers holds for the models that it calls.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) audience: Audience,
    /// The most urgent one's; 0 if none says.
    pub(crate) priority: u64,
    /// Id and headers, if there is one only.
    pub(crate) caller: CallerInfo,
}

/// Those for whom a model is called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audience {
    /// When none of them waits any more.
    pub(crate) deadline: Option<Instant>,
    /// Tell whether they have left; none if that cannot be told of each.
    pub(crate) probes: Vec<CancelProbe>,
}

impl Audience {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        !self.probes.is_empty() && self.probes.iter().all(CancelProbe::is_cancelled)
    }
}

/// One batch's way to other models.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Link {
    caller: Arc<Caller>,
    spec: Arc<ModelSpec>,
    carried: Carried,
}

impl Link {
    /// The way of a batch of the model `spec`, whose place among the others is `caller`.
    pub(crate) fn new(caller: Arc<Caller>, spec: Arc<ModelSpec>, carried: Carried) -> Self {
        Self { caller, spec, carried }
    }
}

#[pymethods]
impl Link {
    /// Makes a call. It is sent when it is first waited for.
    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are extracted into owned vectors")]
    fn begin(
        &self,
        py: Python<'_>,
        name: String,
        version: Option<String>,
        positional: Vec<Bound<'_, PyAny>>,
        named: &Bound<'_, PyDict>,
        parameters: &Bound<'_, PyDict>,
    ) -> PyResult<PeerCall> {
        // The last reference to a model that is replaced may go here.
        let found = detached(py, || self.caller.find(&self.spec, &name, version.as_deref()));
        let model = found.map_err(|error| raised(py, &error))?;
        let spec = model.spec();
        if spec.streams || spec.sequences.is_some() {
            let what = if spec.streams { "streams its answers" } else { "keeps sequences" };
            let text = format!("model '{}' {what}: a client can call it, and no other model", spec.name);
            return Err(raised(py, &Error::new(Kind::Unsupported, text)));
        }
        let mut request = request::request(spec, positional, named)?;
        request.deadline = self.carried.audience.deadline;
        request.schedule.priority = self.carried.priority;
        if spec.wants_context {
            let mut caller = Box::new(self.carried.caller.clone());
            for (name, value) in parameters {
                caller.parameters.push((name.extract()?, parameter(&value)?));
            }
            request.caller = Some(caller);
        }
        Ok(PeerCall::new(model, request, self.carried.audience.clone()))
    }
}
