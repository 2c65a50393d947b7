//! Bodies of requests and responses, inflation, and work on blocking threads.

mod flush_clock;
mod frames;
pub(crate) mod inflate;
mod keep_alive;
mod logged_body;
pub(crate) mod offload;
mod request_body;
mod response_body;
mod timed_body;
mod turn;

pub(crate) use flush_clock::FlushClock;
pub(crate) use frames::Frames;
pub(crate) use keep_alive::{Comment, KeepAlive};
pub(crate) use request_body::{RequestBody, next_chunk};
pub(crate) use response_body::Body;
pub(crate) use timed_body::TimedBody;
pub(crate) use turn::{FRAME_BYTES, Turn};
