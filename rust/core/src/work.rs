//! What a queue has for an instance.

use crate::{Job, SequenceId};

/// What an instance is to do next.
#[derive(Debug)]
pub enum Work {
    /// To compute a batch.
    Batch(Job),
    /// To let go of the state of sequences that are over. It may not hold any of them.
    Over(Vec<SequenceId>),
}

/// What an instance gets that does not wait for ever.
#[derive(Debug)]
pub enum Pulled {
    /// Something to do.
    Work(Work),
    /// Nothing, for so long.
    Nothing,
    /// The queue is closed and empty.
    Closed,
}
