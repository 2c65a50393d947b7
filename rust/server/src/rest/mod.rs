//! REST: health, metadata and inference of the Open Inference Protocol v2, and `/metrics`.

mod codec;
pub(crate) mod error;
mod handlers;
mod headers;
mod inference;
mod path;
mod raw;
mod router;

pub(crate) use error::{broken, response as refusal};
pub(crate) use headers::check_head;
pub(crate) use inference::{
    cloud_events::answer as inference,
    generate::generate,
    infer::Inference,
    platforms::{Hosted, Request as HostedRequest, answer as hosted},
    v1::{Verb, takes_post as v1_takes_post},
};
pub(crate) use path::{GenerateVerb, InferPath, check as check_path};
pub(crate) use raw::route::{
    Request as RoutedRequest, allowing, answer as routed, find as find_route, find_infer as find_infer_route,
};
pub(crate) use router::{metrics_router, router};
