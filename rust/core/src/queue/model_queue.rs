//! One bounded queue per model. Instances pull batches from it; nothing pushes to them.

use super::{
    BatchRecord, InstanceState, Load, QueueLimits, ResourceShare, lane::Lane, pending::Pending, sequences::Table,
    tuning::BatchLog,
};
use crate::{
    Error, ModelSpec, SequenceId,
    batch::{drain::Drain, policy::Reason},
    metrics::ModelMetrics,
    reply::{InlineExecutor, Notify},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak, atomic::AtomicBool},
    time::{Duration, Instant, SystemTime},
};

/// Queue of one model: limits, lanes of waiting requests, and the policy's state, under one lock.
#[derive(Debug)]
pub struct Queue {
    pub(super) spec: Arc<ModelSpec>,
    pub(super) metrics: Arc<ModelMetrics>,
    /// Origin of the times inside, in nanoseconds. The policy needs no clock.
    pub(super) epoch: Instant,
    pub(super) fixed_rows: bool,
    pub(super) inner: Mutex<Inner>,
    /// Set once a request of any size could be refused. [`Queue::check_capacity`] clears it.
    pub(super) may_refuse: AtomicBool,
    /// One per lane. Shared, so that an I/O thread can notify a lane without the queue.
    pub(super) notifiers: Box<[Arc<Notify>]>,
    /// One per instance.
    pub(super) instances: Box<[InstanceState]>,
    /// Share of the server's resources, if the model's batches need any.
    pub(super) share: OnceLock<ResourceShare>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) lanes: Box<[Lane]>,
    /// Lane of each sequence.
    pub(super) sequences: Option<Table>,
    /// Warm-up calls by instance, each in a separate queue. An instance computes them first.
    pub(super) warmups: Vec<(usize, Arc<Queue>)>,
    pub(super) bounds: QueueLimits,
    pub(super) drain: Drain,
    pub(super) notes: BatchLog,
    pub(super) draining: bool,
    pub(super) closed: bool,
}

/// An answered batch.
pub(crate) struct Answered<'a> {
    pub(crate) instance: usize,
    pub(crate) lane: usize,
    pub(crate) requests: usize,
    pub(crate) rows: usize,
    /// Cost, if rows have a cost.
    pub(crate) cost: Option<u64>,
    pub(crate) duration: Duration,
    pub(crate) reason: Reason,
    /// Longest wait of its requests.
    pub(crate) waited: Duration,
    /// Sequences of its requests.
    pub(crate) steps: &'a [SequenceId],
}

impl Queue {
    /// An empty queue.
    pub fn new(spec: Arc<ModelSpec>, metrics: Arc<ModelMetrics>) -> Self {
        let lanes = if spec.sequences.is_some() { spec.instances.max(1) } else { 1 };
        Self {
            // Rows of an iterative model are not joined, so any two go together.
            fixed_rows: spec.has_fixed_rows() || spec.iterative.is_some(),
            metrics,
            epoch: Instant::now(),
            inner: Mutex::new(Inner {
                lanes: (0..lanes).map(|_| Lane::new(&spec)).collect(),
                sequences: spec.sequences.as_ref().map(|limits| Table::new(limits, lanes)),
                warmups: Vec::new(),
                bounds: QueueLimits::new(&spec),
                drain: Drain::default(),
                notes: BatchLog::default(),
                draining: false,
                closed: false,
            }),
            may_refuse: AtomicBool::new(true),
            notifiers: (0..lanes).map(|_| Arc::default()).collect(),
            instances: (0..spec.instances.max(1)).map(|_| InstanceState::default()).collect(),
            share: OnceLock::new(),
            spec,
        }
    }

    /// Declaration of the model.
    pub fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    /// Metrics of the model.
    pub fn metrics(&self) -> &Arc<ModelMetrics> {
        &self.metrics
    }

    /// Records an answered batch: the policy learns from it, and its instance and sequences are free again.
    pub(crate) fn answered(&self, answered: &Answered<'_>) {
        let now_ns = self.now_ns();
        self.instance(answered.instance).end(now_ns);
        let mut inner = self.lock();
        let lane = &mut inner.lanes[answered.lane];
        let Answered { reason, requests, rows, cost, waited, duration, .. } = *answered;
        let own_ns = lane.policy.own_ns(nanoseconds(duration), lane.busy - lane.entering.min(lane.busy));
        lane.busy = lane.busy.saturating_sub(1);
        lane.policy.answered(now_ns, requests, cost.unwrap_or(rows as u64), own_ns);
        inner.notes.add(BatchRecord { answered: SystemTime::now(), reason, requests, rows, cost, waited, duration });
        let idle = inner.is_idle();
        inner.drain.answered(now_ns, answered.rows.max(answered.requests), idle);
        let Inner { lanes, sequences, .. } = &mut *inner;
        let lane = &mut lanes[answered.lane];
        if let Some(table) = sequences {
            let over = answered.steps.iter().filter(|id| table.computed(now_ns, id).is_some());
            lane.over.extend(over.cloned());
            self.metrics.sequences.set(table.len() as i64);
        }
    }

    /// Lets I/O threads run `executor` in place of a notification of an idle instance.
    pub fn set_inline(&self, executor: Weak<impl InlineExecutor + 'static>) {
        self.notifiers[0].set_inline(executor);
    }

    /// Returns whether draining has started.
    pub fn is_draining(&self) -> bool {
        self.lock().draining
    }

    /// Starts draining: nothing waits for more requests, and no sequence begins.
    pub fn drain(&self) {
        self.lock().draining = true;
        self.notify_all();
    }

    /// Closes the queue: new requests are refused. Instances end after the waiting requests.
    pub fn close(&self) {
        let mut inner = self.lock();
        (inner.draining, inner.closed) = (true, true);
        let unanswered = std::mem::take(&mut inner.warmups);
        drop(inner);
        drop(unanswered);
        self.notify_all();
    }

    /// Returns true if any request waits.
    pub fn has_waiting(&self) -> bool {
        self.lock().waiting().requests > 0
    }

    /// Returns true after [`Queue::close`].
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Closes the queue and fails all waiting requests. Returns their number.
    pub fn fail_waiting(&self, error: &Error) -> usize {
        self.close();
        let waiting: Vec<Pending> = self.lock().lanes.iter_mut().flat_map(|lane| lane.waiting.clear()).collect();
        self.metrics.queue_depth.dec_by(waiting.len() as i64);
        let count = waiting.len();
        for pending in waiting {
            pending.reply.send(Err(error.clone()));
        }
        count
    }

    /// Learned values: fixed cost and cost per row or unit of cost, in nanoseconds, and the share of returning clients.
    pub fn learned(&self) -> (u64, u64, f64) {
        let inner = self.lock();
        let policy = &inner.lanes[0].policy;
        (policy.cost.fixed_ns(), policy.cost.per_unit_ns(), policy.returns.share())
    }

    /// Notifies an idle instance of a lane.
    pub(super) fn notify(&self, lane: usize) {
        self.notifiers[lane].notify_one();
    }

    pub(super) fn notify_all(&self) {
        self.notifiers.iter().for_each(|lane| lane.notify_all());
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.to_ns(Instant::now())
    }

    pub(super) fn to_ns(&self, time: Instant) -> u64 {
        nanoseconds(time.saturating_duration_since(self.epoch))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Load of the waiting requests.
    pub(super) fn waiting(&self) -> Load {
        match &self.lanes[..] {
            [only] => only.waiting.load(),
            lanes => lanes.iter().fold(Load::default(), |sum, lane| sum + lane.waiting.load()),
        }
    }

    /// Returns true if nothing waits and nothing is computed.
    fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.waiting.is_empty() && lane.busy == 0)
    }
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
