//! REST: health, metadata and inference of the Open Inference Protocol v2, and `/metrics`.

pub(crate) mod error;
mod headers;
mod infer;
mod path;
mod receive;
mod router;
mod statistics;

pub(crate) use headers::check_head;
pub(crate) use infer::{Inference, infer};
pub(crate) use path::InferPath;
pub(crate) use router::router;
