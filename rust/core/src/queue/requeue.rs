//! Retry after a batch ran out of memory: smaller batches, and its requests again.

use super::{
    Queue,
    bounds::{Candidate, Load},
};
use crate::{
    Part,
    batch::gather::{RowKey, row_key},
};
use std::time::Instant;

impl Queue {
    /// Limits batches to half of `rows`. Returns the new maximum.
    pub(crate) fn shrink_batches(&self, lane: usize, rows: usize) -> usize {
        let mut inner = self.lock();
        let policy = &mut inner.lanes[lane].policy;
        policy.too_large(rows);
        policy.max_size()
    }

    /// Puts the requests of a batch of an instance and its lane back at the front of their levels.
    pub(crate) fn requeue(&self, (instance, lane): (usize, usize), parts: Vec<Part>, cut_at: Instant) {
        let cut_ns = self.to_ns(cut_at);
        self.instance(instance).end(self.now_ns());
        let mut inner = self.lock();
        let lane_of = &mut inner.lanes[lane];
        lane_of.busy = lane_of.busy.saturating_sub(1);
        for Part { request, reply, waited } in parts.into_iter().rev() {
            let key = if self.fixed_rows { RowKey::new() } else { row_key(&self.spec, &request.inputs) };
            let level = self.spec.queueing.level(request.schedule.priority);
            let candidate = Candidate { load: Load::of(&request), level, client: request.schedule.client };
            let arrived_ns = cut_ns.saturating_sub(super::model_queue::nanoseconds(waited));
            lane_of.put_back(self.pending(request, reply, (key, candidate), arrived_ns));
            self.metrics.queue_depth.inc();
        }
        self.note_load(&inner);
        drop(inner);
        self.notify(lane);
    }
}
