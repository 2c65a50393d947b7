//! Requests that join the rows of an iterative model's instance between two steps.

use super::{CutBatch, Queue, lane::Lane, levels::Place};
use crate::batch::{gather::RowKey, policy::Reason};
use std::{sync::Arc, time::Duration};

impl Queue {
    /// Takes the waiting requests that fit into `room` rows, in the queue's order, each as a batch. Does not wait.
    pub(crate) fn join(self: &Arc<Self>, instance: usize, room: usize) -> Vec<CutBatch> {
        let mut joined = Vec::new();
        let index = instance % self.notifiers.len();
        let mut inner = self.lock();
        if room == 0 || inner.lanes[index].waiting.is_empty() {
            return joined;
        }
        let now_ns = self.now_ns();
        inner.lanes[index].demote_overdue(now_ns);
        let mut left = room;
        while left > 0 {
            // A request with more rows than there is room for waits, and none overtakes it.
            let parts = self.take(&mut inner, index, now_ns, left, Some(RowKey::new())).parts;
            if parts.is_empty() {
                break;
            }
            left -= parts.iter().map(|part| part.request.rows).sum::<usize>().min(left);
            let Lane { busy, policy, .. } = &mut inner.lanes[index];
            *busy += 1;
            policy.started(now_ns);
            joined.push(CutBatch {
                queue: Arc::clone(self),
                instance,
                lane: index,
                parts,
                reason: Reason::Step,
                max_rows: room,
                cost: None,
                guard: None,
                entering: false,
                cut_ns: now_ns,
            });
        }
        // The notification of a request that is left may have reached this instance in place of an idle one.
        let notify = inner.lanes[index].parked > 0 && !inner.lanes[index].waiting.is_empty();
        drop(inner);
        if notify {
            self.notify(index);
        }
        joined
    }

    /// Waits until a request can join `room` rows, the wait is interrupted, or `patience` has passed. Returns false at
    /// once if the next request has too many rows: the instance then waits elsewhere.
    pub(crate) fn wait_to_join(&self, instance: usize, room: usize, patience: Duration) -> bool {
        if room == 0 {
            return false;
        }
        let index = instance % self.notifiers.len();
        let mut inner = self.lock();
        if self.instance(instance).take_interrupt() {
            return true;
        }
        let lane = &mut inner.lanes[index];
        if let Some(next) = lane.waiting.get(&mut Place::default()) {
            let fits = next.request.rows <= room || next.is_dead(self.now_ns());
            let notify = !fits && lane.parked > 0;
            drop(inner);
            if notify {
                // The notification of that request may have reached this instance in place of an idle one.
                self.notify(index);
            }
            return fits;
        }
        lane.notify_from(1);
        lane.parked += 1;
        inner = self.notifiers[index].sleep(inner, Some(patience));
        inner.lanes[index].parked -= 1;
        true
    }

    /// Ends an instance's wait in [`Queue::wait_to_join`], or its next one.
    pub(crate) fn interrupt(&self, instance: usize) {
        self.instance(instance).interrupt();
        // An instance that has checked the flag is asleep once the lock is free.
        drop(self.lock());
        self.notifiers[instance % self.notifiers.len()].notify_all();
    }
}
