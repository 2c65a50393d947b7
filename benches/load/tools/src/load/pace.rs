//! When requests start, and when the run ends.

use crate::options::Options;
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// The clock of one run.
pub(crate) struct Pace {
    measure_from: Instant,
    end: Instant,
    /// Zero for a closed loop.
    interval: Duration,
    next_start: Cell<Instant>,
    requests_left: Cell<u64>,
}

impl Pace {
    pub(crate) fn new(options: &Options, start: Instant) -> Self {
        let measure_from = start + Duration::from_secs_f64(options.warm_up);
        let interval = if options.rate > 0.0 { 1.0 / options.rate } else { 0.0 };
        Self {
            measure_from,
            end: measure_from + Duration::from_secs_f64(options.seconds),
            interval: Duration::from_secs_f64(interval),
            next_start: Cell::new(start),
            requests_left: Cell::new(if options.requests == 0 { u64::MAX } else { options.requests }),
        }
    }

    /// Waits for the next request's turn. The time from which its latency counts; `None` when the run is over.
    pub(crate) async fn turn(&self) -> Option<Instant> {
        let left = self.requests_left.get().checked_sub(1)?;
        let start = if self.interval.is_zero() { Instant::now() } else { self.next_start.get() };
        if start >= self.end {
            return None;
        }
        self.requests_left.set(left);
        if !self.interval.is_zero() {
            self.next_start.set(start + self.interval);
            tokio::time::sleep_until(start.into()).await;
        }
        // In an open loop that is behind, the intended start lies before the end and the real one after it.
        (Instant::now() < self.end).then_some(start)
    }

    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    pub(crate) fn measures(&self, at: Instant) -> bool {
        at >= self.measure_from && at <= self.end
    }
}
