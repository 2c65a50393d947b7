//! Late join: requests that join a batch after its cut.

use super::{Job, trace::BatchTrace};
use crate::{Inputs, batch::gather::gather};

impl Job {
    /// Returns true if rows may join.
    ///
    /// Batches with preferred or allowed sizes, a cost limit or ragged rows keep the size of their cut. So do batches
    /// that
    /// may be retried after an out-of-memory error. With sequences each row belongs to another sequence.
    pub fn has_room(&self) -> bool {
        self.rows < self.max_rows
            && self.spec().sequences.is_none()
            && self.spec().batching.as_ref().is_some_and(|batching| {
                batching.dynamic
                    && batching.preferred_sizes.is_empty()
                    && batching.sizes.is_empty()
                    && batching.cost.is_none()
                    && !self.spec().is_ragged()
                    && !batching.retry_on_oom
            })
    }

    /// Adds requests that arrived since the cut, and joins their rows to the gathered `inputs`.
    ///
    /// For executors that wait after the cut, for example for the GIL: the batch stays open until then.
    pub fn admit_late_joiners(&mut self, inputs: Inputs) -> Inputs {
        let room = self.max_rows.saturating_sub(self.rows);
        let mut late = self.queue.late_joiners(self.lane, &inputs, room);
        if late.is_empty() {
            return inputs;
        }
        self.rows += late.iter().map(|part| part.request.rows).sum::<usize>();
        let mut sets = vec![inputs];
        if !self.spec().raw_requests {
            sets.extend(late.iter_mut().map(|part| std::mem::take(&mut part.request.inputs)));
        }
        self.parts.append(&mut late);
        self.trace = self.trace.take().or_else(|| BatchTrace::of(&self.parts));
        gather(sets.iter_mut(), self.rows)
    }
}
