//! What a queue has learned and decided, and its knobs while it serves.

use super::{Load, Queue, QueueLimits};
use crate::{Batching, Error, Result, batch::policy::Reason};
use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

/// The decisions that are remembered.
const REMEMBERED: usize = 64;

/// One batch, from its cut to its answer.
#[derive(Clone, Copy, Debug)]
pub struct BatchRecord {
    /// When it was answered.
    pub answered: SystemTime,
    /// Why it was cut.
    pub reason: Reason,
    /// Its requests.
    pub requests: usize,
    /// Their rows.
    pub rows: usize,
    /// What they cost, where rows have a cost.
    pub cost: Option<u64>,
    /// How long the one had waited that waited longest.
    pub waited: Duration,
    /// What the handler took; from the cut to the answer if it failed.
    pub duration: Duration,
}

/// The last decisions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct BatchLog(VecDeque<BatchRecord>);

/// What can be changed while a model serves; `None` leaves it as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tuning {
    /// The most rows in a batch: 1 to what the model declares.
    pub max_size: Option<usize>,
    /// How long the oldest request may wait for company.
    pub max_delay: Option<Duration>,
    /// Whether the learned hold is on.
    pub hold: Option<bool>,
    /// The most requests that wait.
    pub max_queue: Option<usize>,
    /// The most rows that wait; the inner `None` for no bound.
    pub max_queue_rows: Option<Option<usize>>,
    /// The most bytes of inputs that wait.
    pub max_queue_bytes: Option<Option<usize>>,
}

/// How a model batches, at one moment.
#[derive(Clone, Debug)]
pub struct QueueReport {
    /// The most rows in a batch, as it is now.
    pub max_size: usize,
    /// The size that was learned from batches which were too large for the memory.
    pub learned_max_size: Option<usize>,
    /// How long the oldest request may wait for company.
    pub max_delay: Duration,
    /// The most that a batch costs, where rows have a cost.
    pub max_cost: Option<u64>,
    /// The latency that batches are to keep.
    pub target: Option<Duration>,
    /// What a batch of several requests may be expected to take.
    pub max_duration: Option<Duration>,
    /// Whether the learned hold is on.
    pub hold: bool,
    /// What may wait.
    pub bounds: QueueLimits,
    /// What waits.
    pub waiting: Load,
    /// Batches that are computed.
    pub computing: usize,
    /// The learned cost of a batch whatever its size.
    pub fixed: Duration,
    /// The learned cost of one more row, or of one more unit of cost.
    pub per_unit: Duration,
    /// The learned share of answered requests that are replaced at once.
    pub returning: f64,
    /// How long a free instance may hold for these.
    pub window: Duration,
    /// The rows that are answered a second while there is work; `None` before the first.
    pub rows_per_second: Option<f64>,
    /// The last decisions, oldest first.
    pub decisions: Vec<BatchRecord>,
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
    /// How it batches now. With sequences, what is learned is that of the first instance.
    pub fn report(&self) -> QueueReport {
        let inner = self.lock();
        let policy = &inner.lanes[0].policy;
        let (max_delay_ns, hold) = policy.waits();
        let fixed_ns = policy.cost.fixed_ns();
        let declared =
            |time: fn(&Batching) -> Option<u64>| self.spec.batching.as_ref().and_then(time).map(Duration::from_nanos);
        QueueReport {
            max_size: policy.max_size(),
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

    /// Turns the knobs: all of them, or none.
    ///
    /// # Errors
    /// `InvalidInput` that names the knob and its range.
    pub fn tune(&self, knobs: &Tuning) -> Result<()> {
        let model = &self.spec.name;
        let joins = self.spec.batching.as_ref().filter(|batching| batching.dynamic);
        let asked = [
            ("max_size", knobs.max_size.is_some()),
            ("max_delay", knobs.max_delay.is_some()),
            ("hold", knobs.hold.is_some()),
        ];
        if let (None, Some((knob, _))) = (joins, asked.into_iter().find(|(_, given)| *given)) {
            return Err(Error::invalid(format!("'{knob}' has no meaning, model '{model}' does not join requests")));
        }
        let most = joins.map_or(1, |batching| batching.max_size);
        if let Some(size) = knobs.max_size.filter(|size| !(1..=most).contains(size)) {
            return Err(Error::invalid(format!(
                "'max_size' is {size}, model '{model}' has batches of 1 to {most} rows"
            )));
        }
        let mut inner = self.lock();
        for lane in &mut inner.lanes {
            lane.policy.tune(knobs.max_size, knobs.max_delay.map(super::queue::nanoseconds), knobs.hold);
        }
        let bounds = &mut inner.bounds;
        bounds.requests = knobs.max_queue.unwrap_or(bounds.requests);
        bounds.rows = knobs.max_queue_rows.unwrap_or(bounds.rows);
        bounds.bytes = knobs.max_queue_bytes.unwrap_or(bounds.bytes);
        drop(inner);
        // What waits may be enough by now.
        self.notify_all();
        Ok(())
    }
}
