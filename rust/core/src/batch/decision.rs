//! Input and output of the batch policy.

use super::reason::Reason;

/// State of a lane. Times are nanoseconds since the queue was created.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// Rows that fit into the next batch together.
    pub rows: usize,
    /// Cost of these rows, if rows have a cost.
    pub cost: Option<u64>,
    /// These rows reach the maximum cost, or the next request would exceed it.
    pub is_cost_full: bool,
    /// Waiting requests.
    pub requests: usize,
    /// Arrival of the oldest waiting request.
    pub oldest_ns: u64,
    /// Earliest deadline of the requests that fit.
    pub deadline_ns: Option<u64>,
    /// Instances with a batch.
    pub busy: usize,
    /// Those of them that wait for the GIL.
    pub entering: usize,
    /// The server is draining.
    pub draining: bool,
}

/// Decision for an idle instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Cut a batch of at most this many rows.
    Cut(usize, Reason),
    /// Wait.
    Wait {
        /// Time to decide again; `None` to wait for requests only.
        until_ns: Option<u64>,
        /// Number of waiting requests at which to decide again.
        requests: usize,
    },
}
