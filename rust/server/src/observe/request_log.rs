//! The log line of one request, collected while it is answered.

use super::{
    access_log::{Entry, Exchange, RequestFacts},
    log::Log,
};
use std::{
    borrow::Cow,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Facts of one request for its log line. The line is written when the last reference is dropped: a complete response
/// is about to be sent then, and a streamed one has been sent or its client has left.
#[derive(Debug)]
pub(crate) struct RequestLog {
    log: Arc<Log>,
    facts: RequestFacts,
    route: OnceLock<Cow<'static, str>>,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
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

    /// Sets the outcome; only the first one counts.
    pub(crate) fn end(&self, entry: Entry) {
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
            self.log.request(&entry, Some(exchange));
        }
    }
}
