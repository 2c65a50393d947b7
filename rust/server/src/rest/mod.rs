//! REST: health, metadata and inference of the Open Inference Protocol v2, and `/metrics`.

mod admit;
mod batching;
mod bodies;
mod cloud_events;
mod compress;
mod docs;
pub(crate) mod error;
mod events;
mod failure;
mod fallback;
mod generate;
mod headers;
mod hosting;
mod infer;
mod path;
mod pieces;
mod receive;
mod repository;
mod routed;
mod router;
mod settings;
mod shared_memory;
mod statistics;
mod told;
mod v1;

pub(crate) use cloud_events::answer as inference;
pub(crate) use error::{broken, response as refusal};
pub(crate) use generate::generate;
pub(crate) use headers::check_head;
pub(crate) use hosting::{Hosted, Request as HostedRequest, answer as hosted};
pub(crate) use infer::Inference;
pub(crate) use path::{GenerateVerb, InferPath, check as check_path};
pub(crate) use routed::{
    Request as RoutedRequest, allowing, answer as routed, find as find_route, find_infer as find_infer_route,
};
pub(crate) use router::{metrics_router, router};
pub(crate) use shared_memory::{no_cuda_region, no_gpu};
pub(crate) use told::{error as told_error, metadata as told_metadata};
pub(crate) use v1::{Verb, takes_post as v1_takes_post};
