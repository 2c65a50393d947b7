//! Trace of one request, exported when its last reference is dropped.

use super::{record, tracer::Tracer};
use penstock_core::{Error, Kind, Model, Protocol, RequestContext, Traced};
use penstock_wire::DecodedRequest;
use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

/// A traced request. Without an outcome, its client has left.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    pub(super) tracer: Arc<Tracer>,
    pub(super) traced: Arc<Traced>,
    pub(super) parent: Option<[u8; 8]>,
    pub(super) protocol: Protocol,
    pub(super) started: Instant,
    /// Time at which the request was decoded.
    pub(super) received: OnceLock<Instant>,
    /// Time at which the outputs were computed.
    pub(super) computed: OnceLock<Instant>,
    /// Time of the first response of a stream.
    pub(super) responded: OnceLock<Instant>,
    pub(super) outcome: OnceLock<Outcome>,
}

/// Outcome of a request.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Name and version; `None` for an unknown model.
    pub(super) model: Option<(Arc<str>, Arc<str>)>,
    pub(super) id: String,
    pub(super) status: i32,
    pub(super) error: Option<(Kind, String)>,
}

impl RequestTrace {
    pub(super) fn new(
        tracer: Arc<Tracer>,
        traced: Arc<Traced>,
        parent: Option<[u8; 8]>,
        protocol: Protocol,
        started: Instant,
    ) -> Self {
        Self {
            tracer,
            traced,
            parent,
            protocol,
            started,
            received: OnceLock::new(),
            computed: OnceLock::new(),
            responded: OnceLock::new(),
            outcome: OnceLock::new(),
        }
    }

    /// Returns the trace's id.
    pub(crate) fn trace_id(&self) -> &[u8; 16] {
        &self.traced.ids.trace
    }

    /// Records that the request is decoded.
    pub(crate) fn decoded(&self, decoded: &mut DecodedRequest) {
        let _ = self.received.set(Instant::now());
        let trace = Some(Arc::clone(&self.traced));
        decoded.request.context = Some(Box::new(RequestContext { id: decoded.plan.id.clone(), trace }));
    }

    /// Records that the outputs are computed.
    pub(crate) fn computed(&self) {
        let _ = self.computed.set(Instant::now());
    }

    /// Records the first response of a stream.
    pub(crate) fn responded(&self) {
        let _ = self.responded.set(Instant::now());
    }

    /// Records the outcome.
    pub(crate) fn ended(&self, model: Option<&Model>, id: &str, status: i32, error: Option<&Error>) {
        let model = model.map(|model| (Arc::clone(&model.spec().name), Arc::clone(&model.spec().version)));
        let error = error.map(|error| (error.kind(), error.message().to_owned()));
        let _ = self.outcome.set(Outcome { model, id: id.to_owned(), status, error });
    }
}

impl Drop for RequestTrace {
    fn drop(&mut self) {
        record::request(self);
    }
}
