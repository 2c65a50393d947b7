//! Requests that are encoded once, before the load.

use super::plan::{LoadPlan, LoadRequest};
use crate::{
    CallOptions, Failure, Mode,
    connector::Connector,
    failure::Result,
    grpc::call::{Grpc, Outgoing},
    rest::Rest,
};
use bytes::Bytes;
use penstock_core::{BodyChunks, Error};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bodies up to this size are sent from one piece with their head.
const JOINED: usize = 64 << 10;

/// A request, ready to send.
pub(super) enum Prepared {
    /// Over HTTP/1.1.
    Rest {
        /// Head, and a small body.
        head: Bytes,
        /// A large body.
        body: BodyChunks,
        /// The response is an inference's; else any JSON.
        tensors: bool,
    },
    /// Over gRPC.
    Grpc(Outgoing),
}

/// The requests of one thread, and what it needs to send them.
pub(super) struct Endpoint {
    pub(super) connector: Arc<Connector>,
    /// Of the thread: their connections belong to its runtime.
    pub(super) grpc: Vec<Grpc>,
    pub(super) validate: bool,
    pub(super) max_response_bytes: usize,
    requests: Arc<[Prepared]>,
    next: AtomicUsize,
}

/// Encodes the requests of a plan.
///
/// # Errors
/// `InvalidInput` for a request or an option that cannot be sent.
pub(super) fn prepare(plan: &LoadPlan, connector: &Arc<Connector>) -> Result<Arc<[Prepared]>> {
    let options = Arc::new(plan.options.clone());
    let how = CallOptions::default();
    let json = CallOptions { headers: vec![("Content-Type".to_owned(), "application/json".to_owned())], ..how.clone() };
    if plan.target.grpc {
        let grpc = Grpc::new(Mode::Async, &plan.target, &options, Arc::clone(connector));
        let outgoing = plan.requests.iter().map(|request| match request {
            LoadRequest::Infer(call) => grpc.prepared(call, &how),
            LoadRequest::Json(_) => Err(Failure::not_sent(Error::invalid("gRPC has no JSON bodies: use tensors"))),
        });
        return outgoing.map(|outgoing| outgoing.map(Prepared::Grpc)).collect();
    }
    let rest = Rest::new(&plan.target, &options, Arc::clone(connector));
    let encoded = plan.requests.iter().map(|request| -> Result<Prepared> {
        let (tensors, (mut head, body)) = match request {
            LoadRequest::Infer(call) => (true, rest.prepared(call, &how)?),
            LoadRequest::Json(raw) => (false, rest.prepared_raw(raw, &json)),
        };
        if body.iter().map(Bytes::len).sum::<usize>() > JOINED {
            return Ok(Prepared::Rest { head: head.into(), body, tensors });
        }
        body.iter().for_each(|chunk| head.extend_from_slice(chunk));
        Ok(Prepared::Rest { head: head.into(), body: BodyChunks::new(), tensors })
    });
    encoded.collect()
}

impl Endpoint {
    pub(super) fn new(plan: &LoadPlan, connector: &Arc<Connector>, requests: &Arc<[Prepared]>) -> Self {
        let options = Arc::new(plan.options.clone());
        let grpc = || Grpc::new(Mode::Async, &plan.target, &options, Arc::clone(connector));
        Self {
            connector: Arc::clone(connector),
            grpc: if plan.target.grpc { (0..plan.connections).map(|_| grpc()).collect() } else { Vec::new() },
            validate: plan.validate,
            max_response_bytes: plan.options.max_response_bytes,
            requests: Arc::clone(requests),
            next: AtomicUsize::new(0),
        }
    }

    /// The next request in rotation.
    pub(super) fn request(&self) -> &Prepared {
        if self.requests.len() == 1 {
            return &self.requests[0];
        }
        &self.requests[self.next.fetch_add(1, Ordering::Relaxed) % self.requests.len()]
    }
}
