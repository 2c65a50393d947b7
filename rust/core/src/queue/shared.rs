//! The server's resources that a batch needs, before it is cut.

use super::Queue;
use crate::{
    batch::policy::Decision,
    lane::Lane,
    resources::{ResourceGuard, ResourceShare, Wakeups},
};
use std::sync::Arc;

impl Queue {
    /// From now on a batch begins only when there is what this claims. Once, before the first batch.
    pub fn limit(&self, claim: ResourceShare) {
        let _ = self.claim.set(claim);
    }

    /// Wakes an instance of a lane that another thread has seen to wait.
    pub(crate) fn notify_parked(&self, lane: usize) {
        // It holds the lock from when it gets in line until it sleeps.
        drop(self.lock());
        self.notify(lane);
    }

    /// It does not wait for its turn any more. Whom to ring in its place.
    pub(super) fn leave_line(&self, lane: &mut Lane, index: usize) -> Wakeups {
        let claim = self.claim.get().filter(|_| std::mem::take(&mut lane.in_line));
        claim.map(|claim| claim.leave(index)).unwrap_or_default()
    }

    /// Takes what a batch needs, if one is to be cut. Without that it waits, which may be for nothing but its turn.
    ///
    /// # Errors
    /// Whom to ring before all is looked at again: the lane was in line, and there is nothing to cut any more.
    pub(super) fn take_resources(
        self: &Arc<Self>,
        lane: &mut Lane,
        index: usize,
        decision: Decision,
    ) -> Result<(Option<ResourceGuard>, Decision), Wakeups> {
        let Some(claim) = self.claim.get() else { return Ok((None, decision)) };
        if !matches!(decision, Decision::Cut(..)) {
            let wakeups = self.leave_line(lane, index);
            return if wakeups.is_empty() { Ok((None, decision)) } else { Err(wakeups) };
        }
        let grant = claim.take(self, index);
        lane.in_line = grant.is_none();
        // What it waits for is no arrival.
        let wait = Decision::Wait { until_ns: None, requests: usize::MAX };
        Ok(if grant.is_some() { (grant, decision) } else { (None, wait) })
    }
}
