//! A request that is on its way: what its caller awaits.

use super::Ticket;
use crate::{InferResponse, Result};
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

/// The answer to one request, when it is awaited. Dropping it abandons the request.
///
/// The plain case is a pointer and holds nothing of the request, so that the futures around it, which are moved
/// for each request, stay small.
#[must_use = "dropping it abandons the request"]
pub enum ResponseFuture<'a> {
    /// One request in the queue.
    Ticket(Ticket),
    /// Whatever takes more: parts to be joined, a stream's only answer, a cache to be asked.
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
