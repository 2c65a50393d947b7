//! Jobs: batches as values, each answered exactly once.

mod check;
mod inputs;
mod job;
mod late_join;
mod per_request;
mod pull;
mod record;
mod row_chunk;
mod row_set;
mod row_waker;
mod streaming;
mod streaming_per_request;
mod streaming_rows;
mod trace;

pub use self::{
    job::{BatchOutput, Job},
    pull::{Pulled, Work},
    row_chunk::RowChunk,
    row_set::RowSet,
    streaming::{SLOW_READER_TIMEOUT, Streaming},
};
