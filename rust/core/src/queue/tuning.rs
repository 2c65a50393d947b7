//! Introspection and tuning of a queue while it serves.

use super::{Load, Queue, QueueLimits, model_queue::Inner};
use crate::{Batching, Error, Result, batch::policy::Reason};
use std::{
    collections::VecDeque,
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

/// Number of recorded batches.
const REMEMBERED: usize = 64;

/// Record of one batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRecord {
    /// Time of the responses.
    pub answered: SystemTime,
    /// Reason for the cut.
    pub reason: Reason,
    /// Requests.
    pub requests: usize,
    /// Rows.
    pub rows: usize,
    /// Cost, if rows have a cost.
    pub cost: Option<u64>,
    /// Longest wait of its requests.
    pub waited: Duration,
    /// Handler's time; from the cut to the error if it failed.
    pub duration: Duration,
}

/// Recent batches, oldest first.
#[derive(Debug, Default)]
pub(crate) struct BatchLog(VecDeque<BatchRecord>);

/// Options that can change while a model serves; `None` leaves an option unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tuning {
    /// Maximum rows of a batch: 1 to the declared maximum.
    pub max_size: Option<usize>,
    /// Maximum wait of the oldest request for more requests.
    pub max_delay: Option<Duration>,
    /// State of the learned hold.
    pub hold: Option<bool>,
    /// Maximum waiting requests.
    pub max_queue: Option<usize>,
    /// Maximum waiting rows; the inner `None` for no limit.
    pub max_queue_rows: Option<Option<usize>>,
    /// Maximum waiting bytes of inputs.
    pub max_queue_bytes: Option<Option<usize>>,
}

/// State of a queue.
#[derive(Clone, Debug)]
pub struct QueueReport {
    /// Current maximum rows of a batch.
    pub max_size: usize,
    /// Maximum that was learned from batches that ran out of memory.
    pub learned_max_size: Option<usize>,
    /// Maximum wait of the oldest request for more requests.
    pub max_delay: Duration,
    /// Maximum cost of a batch, if rows have a cost.
    pub max_cost: Option<u64>,
    /// Latency target.
    pub target: Option<Duration>,
    /// Limit for the expected duration of a batch of several requests.
    pub max_duration: Option<Duration>,
    /// State of the learned hold.
    pub hold: bool,
    /// Limits.
    pub bounds: QueueLimits,
    /// Load of the waiting requests.
    pub waiting: Load,
    /// Batches being computed.
    pub computing: usize,
    /// Learned fixed cost of a batch.
    pub fixed: Duration,
    /// Learned cost of one more row, or unit of cost.
    pub per_unit: Duration,
    /// Learned share of returning clients.
    pub returning: f64,
    /// Maximum hold for returning clients.
    pub window: Duration,
    /// Rows per second while there is work; `None` before the first batch.
    pub rows_per_second: Option<f64>,
    /// Recent batches, oldest first.
    pub decisions: Vec<BatchRecord>,
}

/// Load of a queue, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct QueueLoad {
    /// Load of the waiting requests.
    pub waiting: Load,
    /// Limits.
    pub bounds: QueueLimits,
    /// Batches being computed.
    pub computing: usize,
    /// Current maximum rows of a batch.
    pub max_size: usize,
}

impl BatchLog {
    pub(crate) fn add(&mut self, note: BatchRecord) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(note);
    }
}

impl Queue {
    /// Reports the state. With sequences, learned values are the first instance's.
    pub fn report(&self) -> QueueReport {
        let inner = self.lock();
        let policy = &inner.lanes[0].policy;
        let (max_delay_ns, hold) = policy.waits();
        let fixed_ns = policy.cost.fixed_ns();
        let declared =
            |time: fn(&Batching) -> Option<u64>| self.spec.batching.as_ref().and_then(time).map(Duration::from_nanos);
        QueueReport {
            max_size: self.largest(&inner),
            learned_max_size: policy.cap(),
            max_delay: Duration::from_nanos(max_delay_ns),
            target: declared(|batching| batching.target_ns),
            max_duration: declared(|batching| batching.max_duration_ns),
            max_cost: self.spec.row_cost().map(|cost| cost.max_cost),
            hold,
            bounds: inner.bounds,
            waiting: inner.waiting(),
            computing: inner.lanes.iter().map(|lane| lane.busy).sum(),
            fixed: Duration::from_nanos(fixed_ns),
            per_unit: Duration::from_nanos(policy.cost.per_unit_ns()),
            returning: policy.returns.share(),
            window: Duration::from_nanos(crate::batch::returns::window_ns(fixed_ns)),
            rows_per_second: inner.drain.rate(self.now_ns()),
            decisions: inner.notes.0.iter().copied().collect(),
        }
    }

    /// Reports the load and its limits.
    pub fn load(&self) -> QueueLoad {
        let inner = self.lock();
        QueueLoad {
            waiting: inner.waiting(),
            bounds: inner.bounds,
            computing: inner.lanes.iter().map(|lane| lane.busy).sum(),
            max_size: self.largest(&inner),
        }
    }

    /// Maximum rows of a batch, or of an instance of an iterative model.
    fn largest(&self, inner: &Inner) -> usize {
        match self.spec.iterative {
            Some(_) => self.spec.max_batch_size(),
            None => inner.lanes[0].policy.max_size(),
        }
    }

    /// Applies all given options, or none.
    ///
    /// # Errors
    /// `InvalidInput`: the message has the option and its range.
    pub fn tune(&self, tuning: &Tuning) -> Result<()> {
        let model = &self.spec.name;
        let joins = self.spec.batching.as_ref().filter(|batching| batching.dynamic);
        let given_options = [
            ("max_size", tuning.max_size.is_some()),
            ("max_delay", tuning.max_delay.is_some()),
            ("hold", tuning.hold.is_some()),
        ];
        if let (None, Some((knob, _))) = (joins, given_options.into_iter().find(|(_, given)| *given)) {
            return Err(Error::invalid(format!("'{knob}' has no meaning, model '{model}' does not join requests")));
        }
        let most = joins.map_or(1, |batching| batching.max_size);
        if let Some(size) = tuning.max_size.filter(|size| !(1..=most).contains(size)) {
            return Err(Error::invalid(format!(
                "'max_size' is {size}, model '{model}' has batches of 1 to {most} rows"
            )));
        }
        let mut inner = self.lock();
        for lane in &mut inner.lanes {
            lane.policy.tune(tuning.max_size, tuning.max_delay.map(super::model_queue::nanoseconds), tuning.hold);
        }
        self.may_refuse.store(true, Ordering::Release);
        let bounds = &mut inner.bounds;
        bounds.requests = tuning.max_queue.unwrap_or(bounds.requests);
        bounds.rows = tuning.max_queue_rows.unwrap_or(bounds.rows);
        bounds.bytes = tuning.max_queue_bytes.unwrap_or(bounds.bytes);
        drop(inner);
        // The waiting requests may be enough under the new options.
        self.notify_all();
        Ok(())
    }
}
