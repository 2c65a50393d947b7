//! A part of a run: the warm-up, or the measurement.

use super::tally::Tally;
use crate::failure::Result;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

/// Limits and counts of one thread's part of a phase.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) start: Instant,
    pub(super) end: Option<Instant>,
    limit: u64,
    /// Requests that may still be sent.
    left: AtomicU64,
    stopped: Arc<AtomicBool>,
    tally: Mutex<Tally>,
}

impl Phase {
    pub(super) fn new(start: Instant, end: Option<Instant>, limit: Option<u64>, stopped: &Arc<AtomicBool>) -> Self {
        let limit = limit.unwrap_or(u64::MAX);
        let (left, stopped) = (AtomicU64::new(limit), Arc::clone(stopped));
        Self { start, end, limit, left, stopped, tally: Mutex::default() }
    }

    /// Requests of the whole phase; `u64::MAX` for no limit.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns whether the phase is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| now >= end) || self.stopped.load(Ordering::Relaxed)
    }

    /// Takes the permission to send one more request, if there is one.
    pub(super) fn admits(&self, now: Instant) -> bool {
        if self.is_over(now) {
            return false;
        }
        if self.limit == u64::MAX {
            return true;
        }
        // Only the phase's own thread counts down.
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    /// Counts the outcome of a request that began at `start`.
    pub(super) fn count(&self, start: Instant, now: Instant, outcome: &Result<usize>) {
        let in_time = self.end.is_none_or(|end| now <= end);
        match outcome {
            Ok(bytes) => self.tally(|tally| tally.success(now.saturating_duration_since(start), *bytes, in_time)),
            Err(failure) => self.tally(|tally| tally.failure(failure)),
        }
    }

    /// Reads or changes the counts.
    pub(super) fn tally<T>(&self, access: impl FnOnce(&mut Tally) -> T) -> T {
        // No panic can leave counts half changed that are worth more than the others.
        access(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
