//! REST: health, metadata and inference of the Open Inference Protocol v2, and `/metrics`.

mod compress;
mod docs;
pub(crate) mod error;
mod events;
mod generate;
mod headers;
mod infer;
mod inflate;
mod path;
mod receive;
mod router;
mod statistics;
mod v1;

pub(crate) use error::response as refusal;
pub(crate) use generate::generate;
pub(crate) use headers::check_head;
pub(crate) use infer::{Inference, infer};
pub(crate) use path::{GenerateVerb, InferPath};
pub(crate) use router::router;
pub(crate) use v1::{Verb, call as v1_call};
