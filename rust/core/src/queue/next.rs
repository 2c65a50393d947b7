//! Next work of an instance.
//!
//! An instance loops under the queue's lock: check the lane, then take a batch, or sleep. It checks again when it is
//! notified, and when its timeout passes. `docs/internals-queue.md` draws the states and lists the events.

use super::{
    InstancePhase, Queue, ResourceGuard,
    lane::{Dropped, Taken, Want},
    model_queue::Inner,
    model_queue::nanoseconds,
    sequences::Table,
};
use crate::{
    Inputs, Part, SequenceId,
    batch::{
        gather::{RowKey, row_key},
        policy::{Decision, Reason, decide},
    },
};
use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

/// Next work of an instance.
#[derive(Debug)]
pub(crate) enum Next {
    /// A batch.
    Batch(CutBatch),
    /// Sequences that are over, whose state the instance still holds.
    Over(Vec<SequenceId>),
    /// Nothing, for as long as the instance may wait.
    Nothing,
    /// The queue is closed and empty.
    Closed,
}

/// A batch that was cut and not begun.
#[derive(Debug)]
pub(crate) struct CutBatch {
    pub(crate) queue: Arc<Queue>,
    /// Instance that took it.
    pub(crate) instance: usize,
    pub(crate) lane: usize,
    pub(crate) parts: Vec<Part>,
    pub(crate) reason: Reason,
    /// Maximum rows.
    pub(crate) max_rows: usize,
    /// Cost of its rows, if rows have a cost.
    pub(crate) cost: Option<u64>,
    /// Resources of the server that it holds.
    pub(crate) guard: Option<ResourceGuard>,
    /// Other instances wait until it begins.
    pub(crate) entering: bool,
    /// Time of the cut, since the queue's epoch.
    pub(crate) cut_ns: u64,
}

/// Decision to cut, with its terms.
struct Cut {
    instance: usize,
    rows: usize,
    reason: Reason,
    max_rows: usize,
    guard: Option<ResourceGuard>,
    /// The instance reports when its batch begins.
    enters: bool,
}

/// End of a wait.
struct Until {
    /// Time to check again.
    time_ns: u64,
    /// The policy set that time.
    timed: bool,
    /// Number of waiting requests that ends the wait.
    requests: usize,
}

impl Queue {
    /// Returns the next work of an instance, counted from 0. Blocks, for at most `patience`.
    ///
    /// `enters`: the instance reports when its batch begins.
    pub(crate) fn next_work(self: &Arc<Self>, instance: usize, patience: Option<Duration>, enters: bool) -> Next {
        let end_ns = patience.map_or(u64::MAX, |patience| self.now_ns().saturating_add(nanoseconds(patience)));
        let index = instance % self.notifiers.len();
        self.instance(instance).set_phase(InstancePhase::Serving);
        let mut inner = self.lock();
        let mut may_spin = true;
        loop {
            if let Some(batch) = inner.warm_up(instance) {
                return Next::Batch(batch);
            }
            let now_ns = self.now_ns();
            if let Some(over) = self.expire_sequences(&mut inner, index, now_ns) {
                return Next::Over(over);
            }
            let lapse_ns = inner.sequences.as_ref().map_or(u64::MAX, Table::lapse_ns);
            let (draining, closed) = (inner.draining, inner.closed);
            let lane = &mut inner.lanes[index];
            lane.demote_overdue(now_ns);
            let max_rows = lane.policy.largest();
            let view = lane.view(max_rows, draining);
            let decision = decide(now_ns, &lane.policy, &view);
            let (guard, decision) = match self.take_resources(lane, index, decision) {
                Ok(taken) => taken,
                Err(wakeups) => {
                    drop(inner);
                    wakeups.notify();
                    inner = self.lock();
                    continue;
                }
            };
            inner = match decision {
                Decision::Cut(rows, reason) => {
                    match self.cut(inner, index, now_ns, Cut { instance, rows, reason, max_rows, guard, enters }) {
                        Ok(batch) => return Next::Batch(batch),
                        Err(inner) => inner,
                    }
                }
                Decision::Wait { .. } if closed && view.requests == 0 => {
                    // Instances that waited for resources get no notification when the last request is taken, so each
                    // one that ends
                    // wakes the next.
                    let notify = self.share.get().is_some() && lane.parked > 0;
                    drop(inner);
                    if notify {
                        self.notify(index);
                    }
                    self.instance(instance).set_phase(InstancePhase::Ended);
                    return Next::Closed;
                }
                Decision::Wait { .. } if now_ns >= end_ns => {
                    let wakeups = self.leave_resources(lane, index);
                    drop(inner);
                    wakeups.notify();
                    return Next::Nothing;
                }
                Decision::Wait { until_ns, requests } => {
                    let time_ns = until_ns.unwrap_or(u64::MAX).min(lapse_ns).min(end_ns);
                    let until = Until { time_ns, timed: until_ns.is_some(), requests };
                    self.wait(inner, index, now_ns, &until, &mut may_spin)
                }
            };
        }
    }

    /// Takes a batch.
    ///
    /// # Errors
    /// The lock, if all requests were dead: the instance checks again.
    fn cut<'a>(
        self: &'a Arc<Self>,
        mut inner: MutexGuard<'a, Inner>,
        index: usize,
        now_ns: u64,
        cut: Cut,
    ) -> Result<CutBatch, MutexGuard<'a, Inner>> {
        let Cut { instance, rows, reason, max_rows, guard, enters } = cut;
        let Taken { parts, cost } = self.take(&mut inner, index, now_ns, rows, None);
        if parts.is_empty() {
            // Dropping the guard notifies other lanes, and takes their queues' locks. One may be of this queue.
            drop(inner);
            drop(guard);
            return Err(self.lock());
        }
        let lane = &mut inner.lanes[index];
        let entering = enters && lane.policy.takes_turns();
        lane.busy += 1;
        lane.entering += usize::from(entering);
        lane.policy.started(now_ns);
        // The rest may be enough for another idle instance. If this lane waited for resources, the other parked
        // instances have to lower their `notify_at` again.
        let notify = lane.parked > 0 && (guard.is_some() || !lane.waiting.is_empty());
        drop(inner);
        if notify {
            self.notify(index);
        }
        Ok(CutBatch {
            queue: Arc::clone(self),
            instance,
            lane: index,
            parts,
            reason,
            max_rows,
            cost,
            guard,
            entering,
            cut_ns: now_ns,
        })
    }

    /// Waits for a notification or a timeout. With short batches the first wait spins.
    fn wait<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        index: usize,
        now_ns: u64,
        until: &Until,
        may_spin: &mut bool,
    ) -> MutexGuard<'a, Inner> {
        let lane = &mut inner.lanes[index];
        lane.notify_from(until.requests);
        lane.parked += 1;
        let notify = &self.notifiers[index];
        if !until.timed && *may_spin && lane.policy.is_fast() {
            // Waking a sleeping thread takes tens of microseconds, many times the duration of a short batch.
            let seen = notify.seen();
            drop(inner);
            notify.spin(seen);
            *may_spin = false;
            inner = self.lock();
            inner.lanes[index].parked -= 1;
            return inner;
        }
        let timed = usize::from(until.timed);
        lane.timed += timed;
        let timeout = (until.time_ns < u64::MAX).then(|| Duration::from_nanos(until.time_ns.saturating_sub(now_ns)));
        inner = notify.sleep(inner, timeout);
        let lane = &mut inner.lanes[index];
        (lane.parked, lane.timed) = (lane.parked - 1, lane.timed - timed);
        inner
    }

    /// Records that a batch begins. Instances that wait for that have a timeout, so none is notified.
    pub(crate) fn entered(&self, lane: usize) {
        let now_ns = self.now_ns();
        let lane = &mut self.lock().lanes[lane];
        lane.entering = lane.entering.saturating_sub(1);
        lane.policy.entered(now_ns);
    }

    /// Takes waiting requests that fit into a batch of `inputs`, at most `room` rows.
    pub(crate) fn late_joiners(&self, lane: usize, inputs: &Inputs, room: usize) -> Vec<Part> {
        let mut inner = self.lock();
        if inner.lanes[lane].waiting.is_empty() || room == 0 {
            return Vec::new();
        }
        let key = if self.fixed_rows { RowKey::new() } else { row_key(&self.spec, inputs) };
        self.take(&mut inner, lane, self.now_ns(), room, Some(key)).parts
    }

    /// Takes the first requests that fit together, in order. Dead requests are dropped.
    pub(super) fn take(&self, inner: &mut Inner, lane: usize, now_ns: u64, rows: usize, key: Option<RowKey>) -> Taken {
        let joins = self.spec.batching.as_ref().is_some_and(|batching| batching.dynamic);
        let mut dropped = Dropped::default();
        let taken = inner.lanes[lane].take(Want { rows, key, joins }, now_ns, &mut dropped);
        self.metrics.queue_depth.dec_by(taken.parts.len() as i64);
        self.reject_dropped(inner, dropped, now_ns);
        taken
    }
}
