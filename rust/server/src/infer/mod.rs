//! Inference behind both protocols: from a decoded request to its response.

mod compute;
pub(crate) mod header_params;
mod recorder;
pub(crate) mod request_headers;
mod response_cache;
pub(crate) mod response_head;
mod responses;
pub(crate) mod shared_tensors;
mod stream_telemetry;
mod telemetry;
mod timing_headers;
mod warmup;

pub(crate) use compute::{Submission, complete, compute, submit};
pub(crate) use responses::{RequestScope, Responses};
pub(crate) use stream_telemetry::StreamTelemetry;
pub(crate) use telemetry::{RequestLabels, RequestTelemetry};
pub(crate) use timing_headers::{BATCH_SIZE_HEADER, timing_headers};
pub use warmup::sample;
