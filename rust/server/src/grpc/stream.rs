//! `ModelStreamInfer`: any number of requests and answers on one call.
//!
//! Models that answer once answer in the order of their requests; those that stream, as they come.
//! A request that fails is answered within the stream, which goes on.

use super::{
    frames::Frames,
    respond,
    stream_read::{Reader, Received},
    stream_reply::{Asked, Told},
    stream_shared::Begun,
};
use crate::{
    body::{Body, Incoming},
    infer::Answers,
    state::{Context, HeldAnswer},
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

/// Requests of one call that are under way; the next one is read when one of them has ended.
const AT_ONCE: usize = 1024;

/// Answers one call.
///
/// # Errors
/// `Unsupported` for messages of an unknown coding.
pub(super) fn answer<B: Incoming>(context: &Context, headers: HeaderMap, body: B) -> Result<Response<Body>> {
    let coding = respond::answer_coding(context, &headers);
    let frames = Frames::new(body, &headers, &context.app.config.limits)?;
    Ok(respond::stream(&context.app, coding, Calls::new(context, headers, frames)))
}

/// The answers of one call.
struct Calls {
    context: Context,
    /// `None` after the last request.
    requests: Option<Pin<Box<dyn Stream<Item = Result<Received>> + Send>>>,
    in_order: FuturesOrdered<Pin<Box<dyn Future<Output = Told> + Send>>>,
    streams: SelectAll<Pin<Box<dyn Stream<Item = Told> + Send>>>,
    /// Whether the first error ends the call, with its own status.
    strict: bool,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Calls {
    fn new<B: Incoming>(context: &Context, headers: HeaderMap, frames: Frames<B>) -> Self {
        let strict = headers.get("triton_grpc_error").is_some_and(|value| value.as_bytes() == b"true");
        let timeout = headers.get("grpc-timeout").and_then(|value| timeout(value.as_bytes()));
        let reader = Reader { context: context.clone(), headers, frames };
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

    /// Takes in requests, as far as they are there.
    fn receive(&mut self, cx: &mut std::task::Context<'_>) -> Result<()> {
        while self.in_order.len() + self.streams.len() < AT_ONCE {
            let Some(requests) = &mut self.requests else { return Ok(()) };
            match requests.poll_next_unpin(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(None) => self.requests = None,
                Poll::Ready(Some(received)) => {
                    let (asked, begun) = received?;
                    self.begin(asked, begun);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, asked: Asked, begun: Result<Begun>) {
        let started = match begun {
            Ok(begun) if begun.is_shared() => return self.begin_shared(begun, asked),
            Ok(begun) => begun.start(&self.context),
            Err(error) => Err(error),
        };
        match started {
            Err(error) => {
                let told = asked.error(error);
                self.in_order.push_back(Box::pin(std::future::ready(told)));
            }
            Ok(answers) if answers.model().spec().streams => {
                self.streams.push(Box::pin(Replies { answers, asked: Some(asked) }));
            }
            Ok(mut answers) => self.in_order.push_back(Box::pin(async move {
                match answers.next().await {
                    Some(Ok(piece)) => asked.answer(&mut answers, piece.response, true),
                    Some(Err(error)) => asked.error(error),
                    None => asked.error(Error::new(Kind::Internal, "a request was not answered")),
                }
            })),
        }
    }

    fn begin_shared(&mut self, begun: Begun, asked: Asked) {
        let context = self.context.clone();
        if begun.model.spec().streams {
            self.streams.push(Box::pin(begun.answers(context, asked)));
        } else {
            self.in_order.push_back(Box::pin(begun.answer(context, asked)));
        }
    }
}

impl Stream for Calls {
    type Item = Result<(pb::ModelStreamInferResponse, Option<HeldAnswer>)>;

    // The first error ends the call: it is not polled again.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.receive(cx) {
            return Poll::Ready(Some(Err(error)));
        }
        if let Poll::Ready(Some(told)) = self.in_order.poll_next_unpin(cx) {
            return Poll::Ready(Some(told.message(self.strict)));
        }
        if let Poll::Ready(Some(told)) = self.streams.poll_next_unpin(cx) {
            return Poll::Ready(Some(told.message(self.strict)));
        }
        if self.requests.is_none() && self.in_order.is_empty() && self.streams.is_empty() {
            return Poll::Ready(None);
        }
        let Some(deadline) = &mut self.deadline else { return Poll::Pending };
        ready!(deadline.as_mut().poll(cx));
        self.deadline = None;
        Poll::Ready(Some(Err(Error::new(Kind::Timeout, "the call did not end within its deadline"))))
    }
}

/// The answers of one model that streams.
struct Replies {
    answers: Answers,
    /// `None` after the end.
    asked: Option<Asked>,
}

impl Stream for Replies {
    type Item = Told;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<Told>> {
        let Self { answers, asked } = &mut *self;
        let Some(known) = asked else { return Poll::Ready(None) };
        let told = match ready!(answers.poll_next(cx)) {
            Some(Ok(piece)) => {
                let last = piece.last;
                let told = known.answer(answers, piece.response, last);
                if last || told.is_error() {
                    *asked = None;
                }
                told
            }
            Some(Err(error)) => {
                let told = known.error(error);
                *asked = None;
                told
            }
            None => {
                let told = known.at_end(answers);
                *asked = None;
                return Poll::Ready(told);
            }
        };
        Poll::Ready(Some(told))
    }
}
