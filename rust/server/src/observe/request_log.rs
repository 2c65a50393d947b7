//! The log line of one request, collected while it is answered.

use super::{
    access_log::{Entry, Exchange, RequestFacts},
    log::Log,
    slow::Stages,
};
use penstock_core::Model;
use std::{
    borrow::Cow,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Facts of one request for its log lines. They are written when the last reference is dropped: a complete response
/// is about to be sent then, and a streamed one has been sent or its client has left.
#[derive(Debug)]
pub(crate) struct RequestLog {
    log: Arc<Log>,
    facts: RequestFacts,
    route: OnceLock<Cow<'static, str>>,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
    /// `None` where slow requests are not recorded.
    stages: Option<Stages>,
    /// Nothing is logged without it.
    entry: OnceLock<Entry>,
}

impl RequestLog {
    pub(crate) fn new(log: &Arc<Log>, facts: RequestFacts) -> Arc<Self> {
        Self::of(log, facts, OnceLock::new(), 0)
    }

    fn of(log: &Arc<Log>, facts: RequestFacts, route: OnceLock<Cow<'static, str>>, request_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            log: Arc::clone(log),
            facts,
            route,
            request_bytes: AtomicU64::new(request_bytes),
            response_bytes: AtomicU64::new(0),
            stages: log.slow().map(|_| Stages::new()),
            entry: OnceLock::new(),
        })
    }

    /// Returns the log of one request of a call with several. Its message has been received.
    pub(crate) fn for_message(&self, bytes: usize) -> Arc<Self> {
        Self::of(&self.log, self.facts.clone(), self.route.clone(), bytes as u64)
    }

    /// Sets the pattern of the route; only the first one counts.
    pub(crate) fn set_route(&self, route: Cow<'static, str>) {
        let _ = self.route.set(route);
    }

    /// Reports whether the route is set.
    pub(crate) fn has_route(&self) -> bool {
        self.route.get().is_some()
    }

    /// Counts bytes of the request's body.
    pub(crate) fn received(&self, bytes: usize) {
        self.request_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes of the response's body.
    pub(crate) fn sent(&self, bytes: usize) {
        self.response_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Reports whether the time until the response is sent counts.
    pub(crate) fn is_timed(&self) -> bool {
        self.stages.is_some()
    }

    /// Records a wait for the request's body.
    pub(crate) fn waited_for_body(&self, waited: Duration) {
        self.stages.as_ref().inspect(|stages| stages.read(waited));
    }

    /// Records that the request comes to the model's queue.
    pub(crate) fn submitted(&self, model: &Model) {
        self.stages.as_ref().inspect(|stages| stages.submitted(model));
    }

    /// Records that the outputs are computed.
    pub(crate) fn computed(&self) {
        self.stages.as_ref().inspect(|stages| stages.computed());
    }

    /// Records that a complete response is about to be sent.
    pub(crate) fn responded(&self) {
        self.stages.as_ref().inspect(|stages| stages.responded());
    }

    /// Sets the outcome; only the first one counts.
    pub(crate) fn end(&self, entry: Entry) {
        self.stages.as_ref().inspect(|stages| stages.ended());
        let _ = self.entry.set(entry);
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            let exchange = Exchange {
                facts: &self.facts,
                route: self.route.get().map(|route| &**route),
                request_bytes: *self.request_bytes.get_mut(),
                response_bytes: *self.response_bytes.get_mut(),
            };
            if self.log.logs_requests() {
                self.log.request(&entry, Some(exchange));
            }
            if let Some(stages) = &self.stages {
                self.log.slow_request(entry, exchange, stages);
            }
        }
    }
}
