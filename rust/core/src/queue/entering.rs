//! Instances that have to wait for the interpreter between taking a batch and computing it.

use super::Queue;
use crate::work::Work;
use std::sync::Arc;

impl Queue {
    /// As [`Queue::next`], for an instance that may have to wait before it computes what it gets, and says by
    /// [`crate::Job::entered`] when it begins. Until then no other begins where batches are to be short.
    pub fn next_to_enter(self: &Arc<Self>, instance: usize) -> Option<Work> {
        self.awaited(instance, true)
    }

    /// A batch of that lane begins. Who waits for that looks again by itself.
    pub(crate) fn entered(&self, lane: usize) {
        let now_ns = self.now_ns();
        let lane = &mut self.lock().lanes[lane];
        lane.entering = lane.entering.saturating_sub(1);
        lane.policy.entered(now_ns);
    }
}
