//! The end of a server: it hands its sockets over, or refuses requests, and waits for those that run.

use super::{io_thread::IoThreads, server::Server};
use crate::state::Phase;
use penstock_core::{Error, Kind};
use std::{
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// Interval between two checks of a drain.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// Time for the last responses to reach their sockets after the drain's timeout.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(250);

/// Timeout of the last export of spans.
const SPAN_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for the last lines of the audit log.
const AUDIT_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

impl Server {
    /// Leaves the listening sockets to another process, which has them too. Requests are served on open connections,
    /// each of which asks its client to open another one: by GOAWAY, or with its next response.
    pub fn hand_over(&self) {
        self.is_handed_over.store(true, Ordering::Release);
        if let Some(threads) = &*self.threads() {
            threads.hand_over();
        }
    }

    /// Reports whether no client is connected any more, after [`Server::hand_over`].
    pub fn is_deserted(&self) -> bool {
        self.threads().as_ref().is_none_or(IoThreads::has_dealt_all) && self.app.metrics.connections.get() == 0
    }

    /// Starts to drain: after the configured `drain_delay`, in which the server is only reported as not ready, it refuses
    /// new requests. Running ones have `timeout` from then on, which [`Server::drain`] waits for. A timeout of 0 skips
    /// the delay, as does [`Server::hand_over`].
    pub fn begin_drain(&self, timeout: Duration) {
        let is_handed_over = self.is_handed_over.load(Ordering::Acquire);
        let delay =
            if timeout.is_zero() || is_handed_over { Duration::ZERO } else { self.app.config.drain_delay.get() };
        earlier(&self.refusing, delay);
        earlier(&self.give_up, delay.saturating_add(timeout));
        self.advance_drain();
    }

    /// Refuses new requests once the delay of [`Server::begin_drain`] is over. Returns whether it is.
    pub fn advance_drain(&self) -> bool {
        if !is_over(&self.refusing) {
            self.app.advance(Phase::Leaving);
            return false;
        }
        if self.app.phase() == Phase::Draining {
            return true;
        }
        self.app.advance(Phase::Draining);
        // Those without a reader end.
        self.app.streams.wake_drivers();
        self.app.registry.all().iter().for_each(|model| model.queue().drain());
        self.app.registry.draining_queues().iter().for_each(|queue| queue.drain());
        if let Some(threads) = &*self.threads() {
            threads.finish();
        }
        true
    }

    /// Refuses new requests, lets running ones finish within `timeout`, and closes.
    ///
    /// Returns the models with unfinished requests; empty when all finished.
    /// A second call shortens a running drain to the earlier of both timeouts, and waits for it. In a fork
    /// of the process that started it, it does nothing.
    pub fn drain(&self, timeout: Duration) -> Vec<String> {
        if self.process != std::process::id() {
            return Vec::new();
        }
        self.begin_drain(timeout);
        while !self.advance_drain() {
            thread::sleep(DRAIN_POLL);
        }
        let threads = self.threads().take();
        match threads {
            None => self.cut.wait().clone(),
            Some(threads) => {
                let cut = self.finish(threads);
                self.cut.get_or_init(|| cut).clone()
            }
        }
    }

    /// Models with unfinished requests, once the drain has ended.
    pub fn cut_off(&self) -> Option<&[String]> {
        self.cut.get().map(Vec::as_slice)
    }

    /// Reports whether a drain is past its timeout.
    pub fn is_late(&self) -> bool {
        is_over(&self.give_up)
    }

    pub(super) fn threads(&self) -> MutexGuard<'_, Option<IoThreads>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, threads: IoThreads) -> Vec<String> {
        let models = self.app.registry.all();
        // Started sequences may finish, and so may calls between models that outlive their own request.
        let is_computing = || models.iter().any(|model| model.metrics().in_flight.get() > 0);
        while (self.app.requests_under_way() > 0 || self.app.has_sequences() || is_computing()) && !self.is_late() {
            thread::sleep(DRAIN_POLL);
        }
        let cut = models
            .iter()
            .filter_map(|model| {
                let (name, version) = (&model.spec().name, &model.spec().version);
                match (model.metrics().in_flight.get(), model.active_sequences()) {
                    (0, 0) => None,
                    (count, 0) => Some(format!("{name} (version {version}): {count} requests")),
                    (count, active) => {
                        Some(format!("{name} (version {version}): {count} requests, {active} sequences"))
                    }
                }
            })
            .collect();
        let error = Error::new(Kind::Unavailable, "the server was stopped before the request was answered");
        for model in &models {
            model.queue().fail_waiting(&error);
        }
        for queue in self.app.registry.draining_queues() {
            queue.fail_waiting(&error);
        }
        // A connection closes once it has sent its last responses.
        let flushed = Instant::now() + FLUSH_TIMEOUT;
        let flushing = || self.app.metrics.connections.get() > 0 && Instant::now() < flushed;
        while flushing() || (self.app.is_writing() && !self.is_late()) {
            thread::sleep(DRAIN_POLL);
        }
        self.app.liveness.end();
        threads.close();
        if let Some(tracer) = &self.app.tracer {
            tracer.flush(SPAN_FLUSH_TIMEOUT);
        }
        if let Some(audit) = self.app.log.audit() {
            audit.flush(AUDIT_FLUSH_TIMEOUT);
        }
        cut
    }
}

/// A time that may come earlier; `None` until it is known.
pub(super) type Deadline = Mutex<Option<Instant>>;

/// Sets a deadline to `after` from now, if that is earlier.
fn earlier(deadline: &Deadline, after: Duration) {
    let Some(end) = Instant::now().checked_add(after) else { return };
    let mut deadline = deadline.lock().unwrap_or_else(PoisonError::into_inner);
    *deadline = Some(deadline.map_or(end, |known| known.min(end)));
}

fn is_over(deadline: &Deadline) -> bool {
    let deadline = deadline.lock().unwrap_or_else(PoisonError::into_inner);
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}
