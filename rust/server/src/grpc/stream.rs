//! `ModelStreamInfer`: any number of requests and responses on one call.
//!
//! Models with one response answer in the order of their requests; models that stream answer in any order.
//! A request that fails is answered within the stream, which continues.

use super::{
    frames::Frames,
    respond::{self, FramedMessages},
    stream_read::{Received, RequestReader},
    stream_reply::{RequestEcho, StreamReply},
    stream_shared_memory::ModelRequest,
};
use crate::{
    body::{Body, FRAME_BYTES, FlushClock, RequestBody},
    infer::Responses,
    state::{Context, ResponseMemory},
};
use bytes::BytesMut;
use futures_util::{
    Stream, StreamExt as _,
    stream::{FuturesOrdered, SelectAll, unfold},
};
use http::{HeaderMap, Response};
use penstock_core::{Error, Kind, Result};
use penstock_wire::grpc::{TIMEOUT_HEADER, timeout};
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
    Ok(respond::stream(&context.app, coding, StreamCall::new(context, headers, frames, coding.is_some())))
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
    /// Length of a frame from which further messages wait. A compressed call has one message a frame.
    frame: usize,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl StreamCall {
    fn new<B: RequestBody + 'static>(
        context: &Context,
        headers: HeaderMap,
        frames: Frames<B>,
        compressed: bool,
    ) -> Self {
        let strict = headers.get("triton_grpc_error").is_some_and(|value| value.as_bytes() == b"true");
        let timeout = headers.get(TIMEOUT_HEADER).and_then(|value| timeout(value.as_bytes()));
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
            frame: if compressed { 1 } else { FRAME_BYTES },
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
                let (echo, frame) = (Some(echo), self.frame);
                let clock = FlushClock::new(self.context.app.config.flush_interval.get());
                let ready = BytesMut::new();
                self.streams.push(Box::pin(ModelReplies { responses, echo, frame, ready, end: None, clock }));
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
    type Item = Result<FramedMessages>;

    // The first error ends the call: it is not polled again.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.receive(cx) {
            return Poll::Ready(Some(Err(error)));
        }
        if let Poll::Ready(Some(reply)) = self.in_order.poll_next_unpin(cx) {
            return Poll::Ready(Some(reply.messages(self.strict)));
        }
        if let Poll::Ready(Some(reply)) = self.streams.poll_next_unpin(cx) {
            return Poll::Ready(Some(reply.messages(self.strict)));
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

/// Responses of one model that streams. Those that are ready together leave together.
struct ModelReplies {
    responses: Responses,
    /// `None` after the end.
    echo: Option<RequestEcho>,
    /// Length from which further messages wait for the next frame.
    frame: usize,
    /// Framed messages that are not returned. Its memory is used again.
    ready: BytesMut,
    /// Last message, which follows them.
    end: Option<StreamReply>,
    clock: FlushClock,
}

impl ModelReplies {
    /// Encodes available responses into `ready`, and returns the memory of a large one, which is the last of its frame.
    fn fill(&mut self, cx: &mut std::task::Context<'_>) -> Option<ResponseMemory> {
        let Self { responses, ready, .. } = self;
        while ready.len() < self.frame {
            let Some(echo) = &self.echo else { return None };
            let Poll::Ready(next) = responses.poll_next(cx) else { return None };
            let (put, last) = match next {
                Some(Ok(chunk)) => (echo.put(ready, responses, chunk.response, chunk.last), chunk.last),
                Some(Err(error)) => (Err(error), true),
                None => {
                    self.end = echo.at_end(responses);
                    (Ok(None), true)
                }
            };
            let held = put.unwrap_or_else(|error| {
                self.end = Some(echo.error(error));
                None
            });
            if last || self.end.is_some() {
                self.echo = None;
            }
            if held.is_some() {
                return held;
            }
        }
        None
    }
}

impl Stream for ModelReplies {
    type Item = StreamReply;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<StreamReply>> {
        let waits = self.clock.is_running(cx);
        self.responses.set_deferred(waits);
        let held = self.fill(cx);
        if waits && self.echo.is_some() && held.is_none() && self.ready.len() < self.frame {
            return Poll::Pending;
        }
        if !self.ready.is_empty() {
            self.clock.start();
            let frames = self.ready.split().freeze();
            return Poll::Ready(Some(FramedMessages { frames, held }.into()));
        }
        if self.echo.is_some() { Poll::Pending } else { Poll::Ready(self.end.take()) }
    }
}
