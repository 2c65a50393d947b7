//! One bounded queue per model. Instances pull batches from it; nothing pushes to them.

mod again;
mod enter;
mod entering;
mod room;
mod shared;
mod tuning;
mod warm;

use self::tuning::Notes;
pub use self::tuning::{Knobs, Note, Report};
pub use crate::work::{Pulled, Work};
use crate::{
    Error, InferRequest, Inputs, ModelSpec, ResourceShare, Result,
    admission::{Bounds, Load},
    batch::{
        drain::Drain,
        gather::{RowKey, row_key},
        policy::{Decision, Reason, decide},
    },
    job::{Job, Part},
    lane::{Dropped, Lane, Pending, Taken, Want},
    metrics::ModelMetrics,
    sequence::{SequenceId, Table},
};
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

/// How long an instance of a brisk model watches for work before it sleeps.
const WATCH: Duration = Duration::from_micros(50);

/// The waiting requests of one model.
#[derive(Debug)]
pub struct Queue {
    spec: Arc<ModelSpec>,
    metrics: Arc<ModelMetrics>,
    /// Times inside are nanoseconds since then, so that the policy needs no clock.
    epoch: Instant,
    fixed_rows: bool,
    inner: Mutex<Inner>,
    /// One for each lane.
    notifiers: Box<[Notify]>,
    /// To what a batch needs of the server's resources.
    claim: OnceLock<ResourceShare>,
}

/// Wakes the instances of a lane.
#[derive(Debug, Default)]
struct Notify {
    work: Condvar,
    /// Counts rings, for an instance that watches for them instead of sleeping.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Inner {
    lanes: Box<[Lane]>,
    /// For a model with sequences: the lane of each.
    sequences: Option<Table>,
    /// Calls that one instance is to answer before all else, each in a queue of its own.
    warming: Vec<(usize, Arc<Queue>)>,
    bounds: Bounds,
    drain: Drain,
    notes: Notes,
    draining: bool,
    closed: bool,
}

/// A batch that was answered.
pub(crate) struct Answered<'a> {
    pub(crate) lane: usize,
    pub(crate) requests: usize,
    pub(crate) rows: usize,
    /// What they cost, where rows have a cost.
    pub(crate) cost: Option<u64>,
    pub(crate) duration: Duration,
    pub(crate) reason: Reason,
    /// How long the first of its requests had waited.
    pub(crate) waited: Duration,
    /// The sequences of its requests.
    pub(crate) steps: &'a [SequenceId],
}

impl Queue {
    /// An empty queue.
    pub fn new(spec: Arc<ModelSpec>, metrics: Arc<ModelMetrics>) -> Self {
        let lanes = if spec.sequences.is_some() { spec.instances.max(1) } else { 1 };
        Self {
            fixed_rows: spec.has_fixed_rows(),
            metrics,
            epoch: Instant::now(),
            inner: Mutex::new(Inner {
                lanes: (0..lanes).map(|_| Lane::new(&spec)).collect(),
                sequences: spec.sequences.as_ref().map(|limits| Table::new(limits, lanes)),
                warming: Vec::new(),
                bounds: Bounds::new(&spec),
                drain: Drain::default(),
                notes: Notes::default(),
                draining: false,
                closed: false,
            }),
            notifiers: (0..lanes).map(|_| Notify::default()).collect(),
            claim: OnceLock::new(),
            spec,
        }
    }

    /// The model that it feeds.
    pub fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    /// That model's metrics.
    pub fn metrics(&self) -> &Arc<ModelMetrics> {
        &self.metrics
    }

    /// Sequences that are active.
    pub fn active_sequences(&self) -> usize {
        self.lock().sequences.as_ref().map_or(0, Table::len)
    }

    /// Whether a request may go on with that sequence here.
    pub fn holds(&self, id: &SequenceId) -> bool {
        self.lock().sequences.as_ref().is_some_and(|table| table.is_open(self.now_ns(), id))
    }

    /// Wakes an idle instance of a lane.
    pub(crate) fn notify(&self, lane: usize) {
        self.notifiers[lane].count.fetch_add(1, Ordering::Release);
        self.notifiers[lane].work.notify_one();
    }

    /// The next batch of a model without sequences, as soon as the policy says so. Blocks. `None` when the
    /// queue is closed and empty.
    pub fn pull(self: &Arc<Self>) -> Option<Job> {
        loop {
            if let Work::Batch(job) = self.next(0)? {
                return Some(job);
            }
        }
    }

    /// The next work of an instance, counted from 0. Blocks. `None` when the queue is closed and empty.
    pub fn next(self: &Arc<Self>, instance: usize) -> Option<Work> {
        self.awaited(instance, false)
    }

    fn awaited(self: &Arc<Self>, instance: usize, enters: bool) -> Option<Work> {
        loop {
            match self.next_until(instance, u64::MAX, enters) {
                Pulled::Work(work) => return Some(work),
                Pulled::Nothing => {}
                Pulled::Closed => return None,
            }
        }
    }

    /// As [`Queue::next`], for an instance that has something else to look after every so often.
    pub fn next_within(self: &Arc<Self>, instance: usize, patience: Duration) -> Pulled {
        self.next_until(instance, self.now_ns().saturating_add(nanoseconds(patience)), false)
    }

    /// `enters`: whether the instance tells when its batch begins.
    fn next_until(self: &Arc<Self>, instance: usize, end_ns: u64, enters: bool) -> Pulled {
        let index = instance % self.notifiers.len();
        let mut inner = self.lock();
        let mut watched = false;
        loop {
            if let Some(job) = inner.warm_up(instance) {
                return Pulled::Work(Work::Batch(job));
            }
            let now_ns = self.now_ns();
            if let Some(over) = self.expire_sequences(&mut inner, index, now_ns) {
                return Pulled::Work(Work::Over(over));
            }
            let lapse_ns = inner.sequences.as_ref().map_or(u64::MAX, Table::lapse_ns);
            let (draining, closed) = (inner.draining, inner.closed);
            let lane = &mut inner.lanes[index];
            lane.demote_overdue(now_ns);
            let most = lane.policy.largest();
            let view = lane.view(most, draining);
            let decision = decide(now_ns, &lane.policy, &view);
            let (grant, decision) = match self.take_resources(lane, index, decision) {
                Ok(taken) => taken,
                Err(wakeups) => {
                    drop(inner);
                    wakeups.notify();
                    inner = self.lock();
                    continue;
                }
            };
            match decision {
                Decision::Cut(rows, reason) => {
                    let Taken { parts, cost } = self.take(&mut inner, index, now_ns, rows, None);
                    if parts.is_empty() {
                        // Who gets what it gives back is rung, which needs this lock.
                        drop(inner);
                        drop(grant);
                        inner = self.lock();
                        continue;
                    }
                    let lane = &mut inner.lanes[index];
                    let enters = enters && lane.policy.takes_turns();
                    lane.busy += 1;
                    lane.entering += usize::from(enters);
                    lane.policy.started(now_ns);
                    // What was left may be enough for another idle instance; one that was in line with this one waits
                    // for what comes next now.
                    let notify = lane.parked > 0 && (grant.is_some() || !lane.waiting.is_empty());
                    drop(inner);
                    if notify {
                        self.notify(index);
                    }
                    let job = Job::new(Arc::clone(self), index, parts, reason);
                    return Pulled::Work(Work::Batch(job.costing(cost).holding(grant).capped(most).entering(enters)));
                }
                Decision::Wait { .. } if closed && view.requests == 0 => {
                    // Whoever was in line when the rest was taken has nothing to wait for either.
                    let notify = self.claim.get().is_some() && lane.parked > 0;
                    drop(inner);
                    if notify {
                        self.notify(index);
                    }
                    return Pulled::Closed;
                }
                Decision::Wait { .. } if now_ns >= end_ns => {
                    let wakeups = self.leave_line(lane, index);
                    drop(inner);
                    wakeups.notify();
                    return Pulled::Nothing;
                }
                Decision::Wait { until_ns, requests } => {
                    lane.notify_from(requests);
                    lane.parked += 1;
                    let timed = usize::from(until_ns.is_some());
                    lane.timed += timed;
                    if until_ns.is_none() && !watched && lane.policy.is_fast() {
                        // Asleep it would be back in tens of microseconds, many times what a brisk batch takes.
                        let seen = self.notifiers[index].count.load(Ordering::Acquire);
                        drop(inner);
                        self.watch(index, seen);
                        watched = true;
                        inner = self.lock();
                        inner.lanes[index].parked -= 1;
                        continue;
                    }
                    inner = self.park(inner, index, until_ns.unwrap_or(u64::MAX).min(lapse_ns).min(end_ns), now_ns);
                    let lane = &mut inner.lanes[index];
                    (lane.parked, lane.timed) = (lane.parked - 1, lane.timed - timed);
                }
            }
        }
    }

    /// Sleeps until the lane is rung, or that time.
    fn park<'a>(&self, inner: MutexGuard<'a, Inner>, lane: usize, until_ns: u64, now_ns: u64) -> MutexGuard<'a, Inner> {
        let work = &self.notifiers[lane].work;
        if until_ns == u64::MAX {
            return work.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let wait = Duration::from_nanos(until_ns.saturating_sub(now_ns));
        work.wait_timeout(inner, wait).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for a ring, awake and not for long. Gives the core to any other thread that wants it.
    fn watch(&self, lane: usize, seen: usize) {
        let end = Instant::now() + WATCH;
        while self.notifiers[lane].count.load(Ordering::Acquire) == seen && Instant::now() < end {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }

    /// Waiting requests that fit beside `inputs`.
    pub(crate) fn late_joiners(&self, lane: usize, inputs: &Inputs, room: usize) -> Vec<Part> {
        let mut inner = self.lock();
        if inner.lanes[lane].waiting.is_empty() || room == 0 {
            return Vec::new();
        }
        let key = if self.fixed_rows { RowKey::new() } else { row_key(&self.spec, inputs) };
        self.take(&mut inner, lane, self.now_ns(), room, Some(key)).parts
    }

    /// A batch was answered: the policy learns from it, its instance is free again, and its sequences go on.
    pub(crate) fn answered(&self, answered: &Answered<'_>) {
        let now_ns = self.now_ns();
        let mut inner = self.lock();
        let lane = &mut inner.lanes[answered.lane];
        let Answered { reason, requests, rows, cost, waited, duration, .. } = *answered;
        let own_ns = lane.policy.own_ns(nanoseconds(duration), lane.busy - lane.entering.min(lane.busy));
        lane.busy = lane.busy.saturating_sub(1);
        lane.policy.answered(now_ns, requests, cost.unwrap_or(rows as u64), own_ns);
        inner.notes.add(Note { answered: SystemTime::now(), reason, requests, rows, cost, waited, duration });
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

    /// From now on nothing waits for company, and no sequence begins.
    pub fn drain(&self) {
        self.lock().draining = true;
        self.notify_all();
    }

    /// Refuses new requests; instances end when what waits is computed.
    pub fn close(&self) {
        let mut inner = self.lock();
        (inner.draining, inner.closed) = (true, true);
        let unanswered = std::mem::take(&mut inner.warming);
        drop(inner);
        drop(unanswered);
        self.notify_all();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The state that an instance held for sequences is lost: they are over. What waits of them is refused.
    pub fn forget_sequences(&self, instance: usize) {
        let now_ns = self.now_ns();
        let mut inner = self.lock();
        let Inner { lanes, sequences, .. } = &mut *inner;
        let Some(table) = sequences else { return };
        let lane = instance % lanes.len();
        let dropped = lanes[lane].forget(table.of_instance(lane));
        self.reject_dropped(&mut inner, dropped, now_ns);
        // Their state is gone already.
        inner.lanes[lane].over.clear();
    }

    /// How many sequences have their state on an instance.
    pub fn sequences_of(&self, instance: usize) -> usize {
        let inner = self.lock();
        let lane = instance % inner.lanes.len();
        inner.sequences.as_ref().map_or(0, |table| table.of_instance(lane).len())
    }

    fn notify_all(&self) {
        self.notifiers.iter().for_each(|notify| notify.work.notify_all());
    }

    /// Answers everything that waits with `error`, and closes. Returns how many there were.
    pub fn cut_off(&self, error: &Error) -> usize {
        self.close();
        let waiting: Vec<Pending> = self.lock().lanes.iter_mut().flat_map(|lane| lane.waiting.clear()).collect();
        self.metrics.queue_depth.dec_by(waiting.len() as i64);
        let count = waiting.len();
        for pending in waiting {
            pending.reply.send(Err(error.clone()));
        }
        count
    }

    /// What the policy has learned so far: fixed cost, cost a row or unit of cost (both in nanoseconds), returning share.
    pub fn learned(&self) -> (u64, u64, f64) {
        let inner = self.lock();
        let policy = &inner.lanes[0].policy;
        (policy.cost.fixed_ns(), policy.cost.per_unit_ns(), policy.returns.share())
    }

    /// The lane of a request.
    fn route(&self, inner: &mut Inner, request: &InferRequest, now_ns: u64) -> Result<usize> {
        if inner.sequences.is_none() {
            return Ok(0);
        }
        self.lapse(inner, now_ns);
        let draining = inner.draining;
        let Some(table) = &mut inner.sequences else { return Ok(0) };
        let lane = table.route(now_ns, draining, request, &self.spec)?;
        self.metrics.sequences.set(table.len() as i64);
        Ok(lane)
    }

    /// For models with sequences: drops what is dead, and takes the sequences that are over.
    fn expire_sequences(&self, inner: &mut Inner, lane: usize, now_ns: u64) -> Option<Vec<SequenceId>> {
        inner.sequences.as_ref()?;
        self.lapse(inner, now_ns);
        let dropped = inner.lanes[lane].sweep(now_ns);
        self.reject_dropped(inner, dropped, now_ns);
        let over = std::mem::take(&mut inner.lanes[lane].over);
        (!over.is_empty()).then_some(over)
    }

    /// Tells the instances of the sequences that were silent for too long.
    fn lapse(&self, inner: &mut Inner, now_ns: u64) {
        let Some(table) = &mut inner.sequences else { return };
        let lapsed = table.lapse(now_ns);
        if lapsed.is_empty() {
            return;
        }
        self.metrics.sequences.set(table.len() as i64);
        self.metrics.sequences_lapsed.inc_by(lapsed.len() as u64);
        for (lane, id) in lapsed {
            inner.lanes[lane].over.push(id);
            self.notify(lane);
        }
    }

    /// Takes the first requests that fit together, in order. Who has left, or is too late, is dropped here.
    fn take(&self, inner: &mut Inner, lane: usize, now_ns: u64, rows: usize, key: Option<RowKey>) -> Taken {
        let joins = self.spec.batching.as_ref().is_some_and(|batching| batching.dynamic);
        let mut dropped = Dropped::default();
        let taken = inner.lanes[lane].take(Want { rows, key, joins }, now_ns, &mut dropped);
        self.metrics.queue_depth.dec_by(taken.parts.len() as i64);
        self.reject_dropped(inner, dropped, now_ns);
        taken
    }

    fn reject_dropped(&self, inner: &mut Inner, dropped: Dropped, now_ns: u64) {
        let Inner { lanes, sequences, .. } = inner;
        if let Some(table) = sequences {
            for broken in &dropped.broken {
                if let Some(lane) = table.broke(now_ns, broken) {
                    lanes[lane].over.push(broken.id.clone());
                    self.notify(lane);
                }
            }
            self.metrics.sequences.set(table.len() as i64);
        }
        for dead in dropped.dead {
            self.metrics.queue_depth.dec();
            self.metrics.abandoned.inc();
            let error = dead.too_late(now_ns, &self.spec);
            dead.reply.send(Err(error));
        }
        for orphan in dropped.orphans {
            self.metrics.queue_depth.dec();
            let error = orphan.cut_short(&self.spec);
            orphan.reply.send(Err(error));
        }
    }

    fn now_ns(&self) -> u64 {
        self.to_ns(Instant::now())
    }

    fn to_ns(&self, time: Instant) -> u64 {
        nanoseconds(time.saturating_duration_since(self.epoch))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// What waits.
    fn waiting(&self) -> Load {
        self.lanes.iter().fold(Load::default(), |sum, lane| sum + lane.waiting.load())
    }

    /// Whether nothing waits and nothing is computed.
    fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.waiting.is_empty() && lane.busy == 0)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
