//! Next work of an instance: waits until the policy cuts a batch.

use super::{
    Queue, ResourceGuard,
    lane::{Dropped, Taken, Want},
    queue::Inner,
    queue::nanoseconds,
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
    pub(crate) lane: usize,
    pub(crate) parts: Vec<Part>,
    pub(crate) reason: Reason,
    /// The most rows that it may have.
    pub(crate) max_rows: usize,
    /// The cost of its rows, where rows have a cost.
    pub(crate) cost: Option<u64>,
    /// The server's resources that it holds.
    pub(crate) guard: Option<ResourceGuard>,
    /// Whether other instances wait until it begins.
    pub(crate) entering: bool,
}

/// A decision to cut, and the terms of it.
struct Cut {
    rows: usize,
    reason: Reason,
    max_rows: usize,
    guard: Option<ResourceGuard>,
    /// Whether the instance reports when its batch begins.
    enters: bool,
}

/// The end of a wait.
struct Until {
    /// When to look again.
    time_ns: u64,
    /// Whether the policy set that time.
    timed: bool,
    /// The number of waiting requests that ends the wait.
    requests: usize,
}

impl Queue {
    /// The next work of an instance, counted from 0. Blocks, for at most `patience`.
    ///
    /// `enters`: whether the instance reports when its batch begins.
    pub(crate) fn next_work(self: &Arc<Self>, instance: usize, patience: Option<Duration>, enters: bool) -> Next {
        let end_ns = patience.map_or(u64::MAX, |patience| self.now_ns().saturating_add(nanoseconds(patience)));
        let index = instance % self.notifiers.len();
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
                    match self.cut(inner, index, now_ns, Cut { rows, reason, max_rows, guard, enters }) {
                        Ok(batch) => return Next::Batch(batch),
                        Err(inner) => inner,
                    }
                }
                Decision::Wait { .. } if closed && view.requests == 0 => {
                    // An instance that waited for resources when the rest was taken has nothing to wait for either.
                    let notify = self.share.get().is_some() && lane.parked > 0;
                    drop(inner);
                    if notify {
                        self.notify(index);
                    }
                    return Next::Closed;
                }
                Decision::Wait { .. } if now_ns >= end_ns => {
                    let wakeups = self.leave_line(lane, index);
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
    /// The lock, if all that could be taken was dead: the caller looks again.
    fn cut<'a>(
        self: &'a Arc<Self>,
        mut inner: MutexGuard<'a, Inner>,
        index: usize,
        now_ns: u64,
        cut: Cut,
    ) -> Result<CutBatch, MutexGuard<'a, Inner>> {
        let Cut { rows, reason, max_rows, guard, enters } = cut;
        let Taken { parts, cost } = self.take(&mut inner, index, now_ns, rows, None);
        if parts.is_empty() {
            // Dropping the guard wakes other lanes, perhaps one of this queue, and takes their queues' locks.
            drop(inner);
            drop(guard);
            return Err(self.lock());
        }
        let lane = &mut inner.lanes[index];
        let entering = enters && lane.policy.takes_turns();
        lane.busy += 1;
        lane.entering += usize::from(entering);
        lane.policy.started(now_ns);
        // The rest may be enough for another idle instance. One that waited for resources together with this one has
        // to wait for the next requests now.
        let notify = lane.parked > 0 && (guard.is_some() || !lane.waiting.is_empty());
        drop(inner);
        if notify {
            self.notify(index);
        }
        Ok(CutBatch { queue: Arc::clone(self), lane: index, parts, reason, max_rows, cost, guard, entering })
    }

    /// Waits until notified, or until a time. Of a model with short batches, the first wait spins.
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
            // A sleeping thread takes tens of microseconds to wake up, many times what a short batch takes.
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

    /// A batch of that lane begins. Instances that wait for that look again by themselves.
    pub(crate) fn entered(&self, lane: usize) {
        let now_ns = self.now_ns();
        let lane = &mut self.lock().lanes[lane];
        lane.entering = lane.entering.saturating_sub(1);
        lane.policy.entered(now_ns);
    }

    /// Waiting requests that fit into a batch of `inputs`, of at most `room` rows.
    pub(crate) fn late_joiners(&self, lane: usize, inputs: &Inputs, room: usize) -> Vec<Part> {
        let mut inner = self.lock();
        if inner.lanes[lane].waiting.is_empty() || room == 0 {
            return Vec::new();
        }
        let key = if self.fixed_rows { RowKey::new() } else { row_key(&self.spec, inputs) };
        self.take(&mut inner, lane, self.now_ns(), room, Some(key)).parts
    }

    /// Takes the first requests that fit together, in order. Abandoned and late requests are dropped here.
    fn take(&self, inner: &mut Inner, lane: usize, now_ns: u64, rows: usize, key: Option<RowKey>) -> Taken {
        let joins = self.spec.batching.as_ref().is_some_and(|batching| batching.dynamic);
        let mut dropped = Dropped::default();
        let taken = inner.lanes[lane].take(Want { rows, key, joins }, now_ns, &mut dropped);
        self.metrics.queue_depth.dec_by(taken.parts.len() as i64);
        self.reject_dropped(inner, dropped, now_ns);
        taken
    }
}
