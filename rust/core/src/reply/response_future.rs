//! Future of one response.

use super::Ticket;
use crate::{InferResponse, Result};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

/// Future of one response. Dropping it abandons the request.
///
/// The common variant is a pointer and holds nothing of the request. The futures around it are moved for each request
/// and stay small.
#[must_use = "dropping it abandons the request"]
pub enum ResponseFuture<'a> {
    /// A queued request.
    Ticket(Ticket),
    /// A request that takes more steps: parts to join, the only response of a stream, a cache lookup.
    Other(Pin<Box<dyn Future<Output = Result<InferResponse>> + Send + 'a>>),
}

impl Future for ResponseFuture<'_> {
    type Output = Result<InferResponse>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ticket(ticket) => Pin::new(ticket).poll(cx),
            Self::Other(future) => future.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for ResponseFuture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ticket(_) => "ResponseFuture::Ticket",
            Self::Other(_) => "ResponseFuture::Other",
        })
    }
}
