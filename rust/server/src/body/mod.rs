//! Bodies of requests and responses, inflation, and work on blocking threads.

pub(crate) mod inflate;
pub(crate) mod offload;
mod request_body;
mod response_body;
mod timed_body;

pub(crate) use request_body::{RequestBody, next_chunk};
pub(crate) use response_body::Body;
pub(crate) use timed_body::TimedBody;
