//! Counts and latencies of requests.

use super::histogram::Histogram;
use crate::Failure;
use std::{collections::BTreeMap, time::Duration};

/// Maximum of bytes of a message that are kept.
const MESSAGE: usize = 500;

/// Counts of one phase, of one thread or of all.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    latencies: Histogram,
    in_time: u64,
    bytes: u64,
    sizes: Option<(usize, usize)>,
    errors: BTreeMap<(&'static str, Option<u16>), ErrorCount>,
    failed: u64,
    late: u64,
    unsent: u64,
}

/// Errors of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// Kind: a name of [`penstock_core::Kind`].
    pub kind: &'static str,
    /// HTTP status or gRPC code; `None` without a response.
    pub status: Option<u16>,
    /// Number of errors.
    pub count: u64,
    /// Message of the first one.
    pub first: String,
}

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Duration: of the plan, or less if the run was stopped or reached its number of requests.
    pub duration: Duration,
    /// Latencies of successful responses.
    pub latencies: Histogram,
    /// Successful responses within `duration`, of which the throughput is computed. Later ones were in flight at its end.
    pub in_time: u64,
    /// Bytes of the bodies of successful responses.
    pub bytes: u64,
    /// Smallest and largest of these bodies, in bytes.
    pub sizes: Option<(usize, usize)>,
    /// Errors, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// Open loop: requests sent more than 1 ms after their time.
    pub late: u64,
    /// Open loop: requests whose time came, and that were not sent before the end.
    pub unsent: u64,
}

impl Tally {
    /// Counts a response of that many bytes; `in_time` if it arrived within the measurement.
    pub(super) fn success(&mut self, latency: Duration, bytes: usize, in_time: bool) {
        self.latencies.record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        self.in_time += u64::from(in_time);
        self.bytes += bytes as u64;
        let (low, high) = self.sizes.unwrap_or((bytes, bytes));
        self.sizes = Some((low.min(bytes), high.max(bytes)));
    }

    /// Counts an error.
    pub(super) fn failure(&mut self, failure: &Failure) {
        self.failed += 1;
        let (kind, status) = (failure.error.kind().name(), failure.status);
        let error = self.errors.entry((kind, status)).or_insert_with(|| {
            let text = failure.error.message();
            let first = text.chars().take(MESSAGE).collect();
            ErrorCount { kind, status, count: 0, first }
        });
        error.count += 1;
    }

    /// Counts a request that is sent late.
    pub(super) fn late(&mut self) {
        self.late += 1;
    }

    /// Counts requests that are not sent.
    pub(super) fn unsent(&mut self, count: u64) {
        self.unsent += count;
    }

    /// Successful responses and errors.
    pub(super) fn completed(&self) -> (u64, u64) {
        (self.latencies.count(), self.failed)
    }

    /// Adds the counts of another thread.
    pub(super) fn merge(&mut self, other: &Self) {
        self.latencies.merge(&other.latencies);
        self.in_time += other.in_time;
        self.bytes += other.bytes;
        self.sizes = match (self.sizes, other.sizes) {
            (Some((low, high)), Some((other_low, other_high))) => Some((low.min(other_low), high.max(other_high))),
            (one, other) => one.or(other),
        };
        for (key, error) in &other.errors {
            let own = self.errors.entry(*key).or_insert_with(|| ErrorCount { count: 0, ..error.clone() });
            own.count += error.count;
        }
        self.failed += other.failed;
        self.late += other.late;
        self.unsent += other.unsent;
    }

    /// The result of a measurement of that duration.
    pub(super) fn measured(self, duration: Duration) -> Measured {
        let mut errors: Vec<ErrorCount> = self.errors.into_values().collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        Measured {
            duration,
            latencies: self.latencies,
            in_time: self.in_time,
            bytes: self.bytes,
            sizes: self.sizes,
            errors,
            late: self.late,
            unsent: self.unsent,
        }
    }
}
