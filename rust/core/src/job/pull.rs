//! Work that instances pull from a queue.

use super::Job;
use crate::{
    SequenceId,
    queue::{Next, Queue},
};
use std::{sync::Arc, time::Duration};

/// Next work of an instance.
#[derive(Debug)]
pub enum Work {
    /// Compute a batch.
    Batch(Job),
    /// Drop the state of sequences that are over. The instance may hold none of them.
    Over(Vec<SequenceId>),
}

/// Next work of an instance that waits for a limited time.
#[derive(Debug)]
pub enum Pulled {
    /// Work.
    Work(Work),
    /// Nothing came in time.
    Nothing,
    /// The queue is closed and empty.
    Closed,
}

impl Queue {
    /// The next batch of a model without sequences. Blocks. `None` when the queue is closed and empty.
    pub fn pull(self: &Arc<Self>) -> Option<Job> {
        loop {
            if let Work::Batch(job) = self.next(0)? {
                return Some(job);
            }
        }
    }

    /// The next work of an instance, counted from 0. Blocks. `None` when the queue is closed and empty.
    pub fn next(self: &Arc<Self>, instance: usize) -> Option<Work> {
        self.next_or_closed(instance, false)
    }

    /// As [`Queue::next`], for an instance that may have to wait for the GIL before it computes.
    ///
    /// The instance calls [`Job::entered`] when it begins. Until then no other instance begins, if batches are short.
    pub fn next_to_enter(self: &Arc<Self>, instance: usize) -> Option<Work> {
        self.next_or_closed(instance, true)
    }

    /// As [`Queue::next`], for an instance that also polls something else every `patience`.
    pub fn next_within(self: &Arc<Self>, instance: usize, patience: Duration) -> Pulled {
        Pulled::from(self.next_work(instance, Some(patience), false))
    }

    fn next_or_closed(self: &Arc<Self>, instance: usize, enters: bool) -> Option<Work> {
        loop {
            match Pulled::from(self.next_work(instance, None, enters)) {
                Pulled::Work(work) => return Some(work),
                Pulled::Nothing => {}
                Pulled::Closed => return None,
            }
        }
    }
}

impl From<Next> for Pulled {
    fn from(next: Next) -> Self {
        match next {
            Next::Batch(batch) => Self::Work(Work::Batch(Job::new(batch))),
            Next::Over(over) => Self::Work(Work::Over(over)),
            Next::Nothing => Self::Nothing,
            Next::Closed => Self::Closed,
        }
    }
}
