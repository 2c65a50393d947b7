//! REST: the Open Inference Protocol v2, KServe's V1, and the routes around them.

mod codec;
mod error;
mod events;
mod handler;
mod handlers;
mod headers;
mod inference;
mod nearest;
mod operation;
mod raw;
mod route;
mod router;
mod routes;

pub(crate) use error::{broken, is_of_no_route, json, response as refusal};
pub(crate) use events::{find as find_resumed, resume};
pub(crate) use headers::check_head;
pub(crate) use inference::{
    entry::respond as inference,
    infer::Inference,
    platforms::{PlatformCall, Request as PlatformRequest, respond as platform},
};
pub(crate) use operation::{Operation, check_path};
pub(crate) use raw::route::{
    Request as DeclaredRouteRequest, find as find_route, find_infer as find_infer_route, respond as declared_route,
    with_allowed_methods,
};
pub(crate) use router::{Endpoint, metrics_only};
