//! Load generator: sends prepared requests in a closed or an open loop and measures the responses.
//!
//! A closed loop has a fixed number of requests in flight. An open loop starts requests at scheduled times, whatever the
//! server does, and measures latency from the scheduled time: requests that wait behind a slow server are not omitted.
//!
//! Each thread has a single-threaded runtime with its own connections and counts. Requests are encoded before the start.

mod arrivals;
mod closed;
mod histogram;
mod lane;
mod open;
mod patience;
mod phase;
mod plan;
mod prepared;
mod run;
mod shard;
mod tally;
mod timer;

pub use histogram::{Bucket, Histogram};
pub use plan::{Arrivals, Load, LoadPlan, LoadRequest, OpenLoad};
pub use run::{LoadRun, Progress};
pub use tally::{ErrorCount, Measured};

#[cfg(test)]
mod tests;
