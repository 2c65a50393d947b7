//! `ModelStreamInfer`: any number of requests and responses on one call.
//!
//! Models with one response answer in the order of their requests; models that stream answer in any order.
//! A request that fails is answered within the stream, which continues.

use super::{
    frames::Frames,
    respond,
    stream_read::{Received, RequestReader},
    stream_reply::{RequestEcho, StreamReply},
    stream_shared_memory::ModelRequest,
};
use crate::{
    body::{Body, RequestBody},
    infer::Responses,
    state::{Context, ResponseMemory},
};
use futures_util::{
    Stream, StreamExt as _,
    stream::{FuturesOrdered, SelectAll, unfold},
};
use http::{HeaderMap, Response};
use penstock_core::{Error, Kind, Result};
use penstock_wire::{generated::inference as pb, grpc::timeout};
use std::{
    future::Future,
    pin::Pin,
    task::{Poll, ready},
};
use tokio::time::Sleep;

/// Concurrent requests of one call; the next one is read when one of them has ended.
const MAX_CONCURRENT: usize = 1024;

/// Answers one call.
///
/// # Errors
/// `Unsupported` for messages of an unknown coding.
pub(super) fn call<B: RequestBody + 'static>(context: &Context, headers: HeaderMap, body: B) -> Result<Response<Body>> {
    let coding = respond::response_coding(context, &headers);
    let frames = Frames::new(body, &headers, &context.app.config.limits)?;
    Ok(respond::stream(&context.app, coding, StreamCall::new(context, headers, frames)))
}

/// Responses of one call.
struct StreamCall {
    context: Context,
    /// `None` after the last request.
    requests: Option<Pin<Box<dyn Stream<Item = Result<Received>> + Send>>>,
    in_order: FuturesOrdered<Pin<Box<dyn Future<Output = StreamReply> + Send>>>,
    streams: SelectAll<Pin<Box<dyn Stream<Item = StreamReply> + Send>>>,
    /// Set where the first error ends the call, with its own status.
    strict: bool,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl StreamCall {
    fn new<B: RequestBody + 'static>(context: &Context, headers: HeaderMap, frames: Frames<B>) -> Self {
        let strict = headers.get("triton_grpc_error").is_some_and(|value| value.as_bytes() == b"true");
        let timeout = headers.get("grpc-timeout").and_then(|value| timeout(value.as_bytes()));
        let reader = RequestReader { context: context.clone(), headers, frames };
        Self {
            context: context.clone(),
            requests: Some(Box::pin(unfold(reader, |mut reader| async move {
                let received = reader.next().await.transpose()?;
                Some((received, reader))
            }))),
            in_order: FuturesOrdered::new(),
            streams: SelectAll::new(),
            strict,
            deadline: timeout.map(|timeout| Box::pin(tokio::time::sleep(timeout))),
        }
    }

    /// Starts all requests that are available.
    fn receive(&mut self, cx: &mut std::task::Context<'_>) -> Result<()> {
        while self.in_order.len() + self.streams.len() < MAX_CONCURRENT {
            let Some(requests) = &mut self.requests else { return Ok(()) };
            match requests.poll_next_unpin(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(None) => self.requests = None,
                Poll::Ready(Some(received)) => {
                    let (echo, request) = received?;
                    self.begin(echo, request);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, echo: RequestEcho, request: Result<ModelRequest>) {
        let started = match request {
            Ok(request) if request.is_shared() => return self.begin_shared(request, echo),
            Ok(request) => request.start(&self.context),
            Err(error) => Err(error),
        };
        match started {
            Err(error) => {
                let reply = echo.error(error);
                self.in_order.push_back(Box::pin(std::future::ready(reply)));
            }
            Ok(responses) if responses.model().spec().streams => {
                self.streams.push(Box::pin(ModelReplies { responses, echo: Some(echo) }));
            }
            Ok(mut responses) => self.in_order.push_back(Box::pin(async move {
                match responses.next().await {
                    Some(Ok(chunk)) => echo.reply(&mut responses, chunk.response, true),
                    Some(Err(error)) => echo.error(error),
                    None => echo.error(Error::new(Kind::Internal, "a request was not answered")),
                }
            })),
        }
    }

    fn begin_shared(&mut self, request: ModelRequest, echo: RequestEcho) {
        let context = self.context.clone();
        if request.model.spec().streams {
            self.streams.push(Box::pin(request.responses(context, echo)));
        } else {
            self.in_order.push_back(Box::pin(request.reply(context, echo)));
        }
    }
}

impl Stream for StreamCall {
    type Item = Result<(pb::ModelStreamInferResponse, Option<ResponseMemory>)>;

    // The first error ends the call: it is not polled again.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.receive(cx) {
            return Poll::Ready(Some(Err(error)));
        }
        if let Poll::Ready(Some(reply)) = self.in_order.poll_next_unpin(cx) {
            return Poll::Ready(Some(reply.message(self.strict)));
        }
        if let Poll::Ready(Some(reply)) = self.streams.poll_next_unpin(cx) {
            return Poll::Ready(Some(reply.message(self.strict)));
        }
        if self.requests.is_none() && self.in_order.is_empty() && self.streams.is_empty() {
            return Poll::Ready(None);
        }
        let Some(deadline) = &mut self.deadline else { return Poll::Pending };
        ready!(deadline.as_mut().poll(cx));
        self.deadline = None;
        let text = "Deadline Exceeded: the call did not end within its deadline";
        Poll::Ready(Some(Err(Error::new(Kind::Timeout, text))))
    }
}

/// Responses of one model that streams.
struct ModelReplies {
    responses: Responses,
    /// `None` after the end.
    echo: Option<RequestEcho>,
}

impl Stream for ModelReplies {
    type Item = StreamReply;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<StreamReply>> {
        let Self { responses, echo } = &mut *self;
        let Some(known) = echo else { return Poll::Ready(None) };
        let reply = match ready!(responses.poll_next(cx)) {
            Some(Ok(chunk)) => {
                let last = chunk.last;
                let reply = known.reply(responses, chunk.response, last);
                if last || reply.is_error() {
                    *echo = None;
                }
                reply
            }
            Some(Err(error)) => {
                let reply = known.error(error);
                *echo = None;
                reply
            }
            None => {
                let reply = known.at_end(responses);
                *echo = None;
                return Poll::Ready(reply);
            }
        };
        Poll::Ready(Some(reply))
    }
}
