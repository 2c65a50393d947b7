//! Liveness that means progress: which counters do not move, for how long, and whether the server is live and ready.
//!
//! A thread without the interpreter reads counters of instances, queues, I/O threads and the probe of the interpreter.
//! What does not count on for its timeout has stalled. Nothing is measured per request.

mod monitor;
mod stall_clock;
mod state;

pub(crate) use monitor::Watched;
pub(crate) use state::Liveness;
