//! Queue limits. Expired and abandoned requests are evicted before a request is refused, and then those of lower priority.

use super::{Queue, model_queue::Inner};
use crate::{Client, Error, InferRequest, Kind, ModelSpec, Result};
use std::{
    ops::{Add, AddAssign, SubAssign},
    sync::atomic::Ordering,
    time::Duration,
};

/// Number of requests, their rows, and the bytes of their tensors and bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests.
    pub requests: usize,
    /// Rows; a request without a batch axis counts as one.
    pub rows: usize,
    /// Bytes of inputs.
    pub bytes: usize,
}

/// Limits of a queue. They can change while the model serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Requests.
    pub requests: usize,
    /// Rows; `None` for no limit.
    pub rows: Option<usize>,
    /// Bytes of inputs; `None` for no limit.
    pub bytes: Option<usize>,
}

/// A request to be admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) load: Load,
    /// Priority level, counted from 0.
    pub(crate) level: usize,
    pub(crate) client: Client,
}

impl Load {
    /// Load of one request.
    pub(crate) fn of(request: &InferRequest) -> Self {
        let tensors: usize = request.inputs.iter().flatten().map(|tensor| tensor.as_slice().len()).sum();
        let body = request.raw.as_ref().and_then(|asked| asked.http.as_ref()).map_or(0, |http| http.body.len());
        Self { requests: 1, rows: request.rows, bytes: tensors + body }
    }
}

impl QueueLimits {
    /// Declared limits of a model.
    pub(crate) fn new(spec: &ModelSpec) -> Self {
        Self { requests: spec.max_queue, rows: spec.queueing.max_rows, bytes: spec.queueing.max_bytes }
    }

    /// Returns true if any request would be refused with `waiting` in the queue.
    fn is_reached(&self, waiting: Load) -> bool {
        let is_over = |waiting, most: Option<usize>| most.is_some_and(|most| waiting >= most);
        waiting.requests >= self.requests
            || (waiting.requests > 0 && (is_over(waiting.rows, self.rows) || is_over(waiting.bytes, self.bytes)))
    }

    /// Reason to refuse any request, or this candidate, with `waiting` in the queue.
    ///
    /// An empty queue admits a request of any size. Otherwise a request above a limit could never be answered.
    pub(crate) fn refusal(&self, waiting: Load, candidate: Option<Load>) -> Option<String> {
        if waiting.requests >= self.requests {
            return Some(format!("has its maximum of {} requests waiting", self.requests));
        }
        if waiting.requests == 0 {
            return None;
        }
        let brings = candidate.unwrap_or_default();
        over("rows", waiting.rows, brings.rows, self.rows)
            .or_else(|| over("bytes", waiting.bytes, brings.bytes, self.bytes))
    }
}

fn over(what: &str, waiting: usize, brings: usize, most: Option<usize>) -> Option<String> {
    let most = most?;
    if waiting >= most {
        return Some(format!("has its maximum of {most} {what} waiting"));
    }
    (waiting.saturating_add(brings) > most)
        .then(|| format!("has {waiting} of its maximum of {most} {what} waiting, and the request has {brings}"))
}

impl Queue {
    /// Refuses a request of any size that would be refused later anyway. Called before the body is read.
    ///
    /// # Errors
    /// `Overloaded`, with a retry hint.
    pub fn check_capacity(&self) -> Result<()> {
        if !self.may_refuse.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut inner = self.lock();
        self.admit(&mut inner, None)?;
        self.may_refuse.store(self.rejects_late(), Ordering::Release);
        Ok(())
    }

    /// Records after an arrival whether requests of any size may be refused now.
    pub(super) fn note_load(&self, inner: &Inner) {
        if inner.bounds.is_reached(inner.waiting()) {
            self.may_refuse.store(true, Ordering::Release);
        }
    }

    /// Returns true if requests are refused by the expected time of their responses, which changes without arrivals.
    fn rejects_late(&self) -> bool {
        self.spec.batching.as_ref().is_some_and(|batching| batching.reject_late)
    }

    /// Rejects overdue requests without waiting for an instance to pull.
    pub fn reject_overdue(&self) {
        self.sweep(&mut self.lock());
    }

    /// Drops dead requests of all lanes.
    fn sweep(&self, inner: &mut Inner) {
        let now_ns = self.now_ns();
        for lane in 0..inner.lanes.len() {
            let dropped = inner.lanes[lane].sweep(now_ns);
            self.reject_dropped(inner, dropped, now_ns);
        }
    }

    /// Refuses any request, or this candidate, if a limit is reached. Dead requests are evicted first.
    pub(super) fn admit(&self, inner: &mut Inner, candidate: Option<Candidate>) -> Result<()> {
        if self.refusal(inner, candidate).is_none() {
            return Ok(());
        }
        self.sweep(inner);
        let Some(why) = self.refusal(inner, candidate) else { return Ok(()) };
        if self.displace(inner, candidate) { Ok(()) } else { Err(self.overloaded(inner, &why)) }
    }

    fn refusal(&self, inner: &Inner, candidate: Option<Candidate>) -> Option<String> {
        let whole = inner.bounds.refusal(inner.waiting(), candidate.map(|candidate| candidate.load));
        whole.or_else(|| self.late(inner, candidate)).or_else(|| self.refusal_of_share(inner, candidate?))
    }

    /// Reason to refuse a candidate by the limits of its level and of its client.
    pub(super) fn refusal_of_share(&self, inner: &Inner, candidate: Candidate) -> Option<String> {
        let of_level = self.spec.queueing.policy(candidate.level).max_size.and_then(|most| {
            let waiting: usize = inner.lanes.iter().map(|lane| lane.waiting.len_of(candidate.level)).sum();
            let priority = candidate.level + 1;
            (waiting >= most).then(|| format!("has its maximum of {most} requests of priority {priority} waiting"))
        });
        of_level.or_else(|| {
            let most = self.spec.queueing.fair.as_ref()?.max_rows?;
            let waiting: usize = inner.lanes.iter().map(|lane| lane.rows_of(candidate.client)).sum();
            let rows = candidate.load.rows;
            // An empty share admits a request of any size, as an empty queue does.
            (waiting > 0 && waiting + rows > most).then(|| {
                format!("has {waiting} of its maximum of {most} rows of one client waiting, and the request has {rows}")
            })
        })
    }

    /// Reason to refuse a candidate that cannot meet the latency target. An empty queue admits any request.
    pub(super) fn late(&self, inner: &Inner, candidate: Option<Candidate>) -> Option<String> {
        let batching = self.spec.batching.as_ref().filter(|batching| batching.reject_late)?;
        let (target, waiting) = (batching.target_ns?, inner.waiting().rows);
        let rows = waiting + candidate.map_or(1, |candidate| candidate.load.rows);
        let takes = inner.lanes[0].policy.at_best_ns(rows);
        (waiting > 0 && takes > target).then(|| {
            let [takes, target] = [takes, target].map(|time| Duration::from_micros(time / 1000));
            format!("would answer after {takes:?} at best, its target is {target:?}")
        })
    }

    pub(super) fn overloaded(&self, inner: &Inner, why: &str) -> Error {
        let waiting = inner.waiting();
        let retry = inner.drain.retry_after(self.now_ns(), waiting.rows.max(waiting.requests));
        Error::new(Kind::Overloaded, format!("model '{}' {why}", self.spec.name)).retry_after(retry)
    }
}

impl Add for Load {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Load {
    fn sub_assign(&mut self, other: Self) {
        self.requests -= other.requests;
        self.rows -= other.rows;
        self.bytes -= other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_limit_refuses_with_its_number() {
        let bounds = QueueLimits { requests: 4, rows: Some(8), bytes: Some(100) };
        let load = |requests, rows, bytes| Load { requests, rows, bytes };
        let refusal_text = |waiting, candidate| bounds.refusal(waiting, candidate).unwrap_or_default();
        assert_eq!(refusal_text(load(4, 4, 4), None), "has its maximum of 4 requests waiting");
        assert_eq!(refusal_text(load(1, 8, 4), None), "has its maximum of 8 rows waiting");
        assert_eq!(
            refusal_text(load(1, 6, 4), Some(load(1, 3, 4))),
            "has 6 of its maximum of 8 rows waiting, and the request has 3"
        );
        assert_eq!(
            refusal_text(load(1, 1, 60), Some(load(1, 1, 41))),
            "has 60 of its maximum of 100 bytes waiting, and the request has 41"
        );
        assert_eq!(refusal_text(load(1, 6, 60), Some(load(1, 2, 40))), "");
        // An empty queue admits a request of any size.
        assert_eq!(refusal_text(Load::default(), Some(load(1, 1000, 1000))), "");
    }

    #[test]
    fn reached_limits_are_those_that_refuse_any_request() {
        let sizes = [0, 1, 3, 4, 8, 100];
        for (requests, rows) in sizes.into_iter().flat_map(|requests| sizes.map(|rows| (requests, rows))) {
            for (most_rows, most_bytes) in [(None, None), (Some(0), None), (Some(4), Some(8)), (None, Some(8))] {
                let limits = QueueLimits { requests: 4, rows: most_rows, bytes: most_bytes };
                let waiting = Load { requests, rows, bytes: rows * 2 };
                assert_eq!(limits.is_reached(waiting), limits.refusal(waiting, None).is_some(), "{waiting:?}");
            }
        }
    }
}
