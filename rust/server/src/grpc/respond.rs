//! Responses of calls: framed messages, compressed for clients that accept it, and the status after them.

use super::status;
use crate::{
    body::{
        Body, Turn,
        offload::{self, Offloaded},
    },
    settings::Compression,
    state::{App, Context, ResponseMemory},
};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame};
use penstock_core::{BodyChunks, Result};
use penstock_wire::{
    coding::{self, Coding},
    grpc::{FRAME_PREFIX, prefix, put_framed},
};
use prost::Message;
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
};

/// Returns the coding of a call's responses: the server's, if the client accepts it.
pub(super) fn response_coding(context: &Context, headers: &HeaderMap) -> Option<Coding> {
    let compression = context.app.config.grpc_compression?;
    let mut lists = headers.get_all("grpc-accept-encoding").iter().filter_map(|list| list.to_str().ok());
    lists.any(|list| list.split(',').any(|name| name.trim() == compression.name())).then(|| compression.coding())
}

/// Frames a message.
///
/// # Errors
/// `TooLarge` beyond the length that clients accept.
pub(super) fn framed(message: &impl Message) -> Result<Bytes> {
    let mut frame = BytesMut::new();
    put_framed(&mut frame, message)?;
    Ok(frame.freeze())
}

/// Compresses a framed message; a large one on a blocking thread.
pub(super) fn compressed(coding: Coding, frame: BodyChunks) -> Offloaded<Bytes> {
    // A byte takes several times as long to compress as to copy.
    let work = frame.iter().map(Bytes::len).sum::<usize>().saturating_mul(8);
    offload::run(work, move || {
        let mut left = FRAME_PREFIX;
        let message: BodyChunks = frame
            .into_iter()
            .map(|mut chunk| {
                let cut = chunk.split_to(left.min(chunk.len()));
                left -= cut.len();
                chunk
            })
            .collect();
        let small = coding::compress(coding, &message)?;
        let mut framed = BytesMut::with_capacity(FRAME_PREFIX + small.len());
        framed.put_slice(&prefix(true, small.len())?);
        framed.put_slice(&small);
        Ok(framed.freeze())
    })
}

/// Builds the response of one framed message. `headers` become its metadata.
pub(super) async fn unary(coding: Option<Coding>, frame: BodyChunks, mut headers: HeaderMap) -> Result<Response<Body>> {
    let chunks = match coding {
        None => frame,
        Some(coding) => {
            headers.insert("grpc-encoding", HeaderValue::from_static(coding.name()));
            BodyChunks::from_iter([Box::pin(compressed(coding, frame)).await?])
        }
    };
    let mut response = Response::new(Body::with_trailers(chunks, Some(status::ok_trailers())));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    *response.headers_mut() = headers;
    Ok(response)
}

/// Framed messages that leave together, uncompressed. A call with compressed responses has one at a time.
pub(super) struct FramedMessages {
    pub(super) frames: Bytes,
    /// Memory of a large message, until there is room for another.
    pub(super) held: Option<ResponseMemory>,
}

impl From<Bytes> for FramedMessages {
    fn from(frames: Bytes) -> Self {
        Self { frames, held: None }
    }
}

/// Builds the response of any number of messages.
pub(super) fn stream<S>(app: &Arc<App>, coding: Option<Coding>, messages: S) -> Response<Body>
where
    S: Stream<Item = Result<FramedMessages>> + Send + 'static,
{
    let body = Messages {
        app: Arc::clone(app),
        coding,
        messages: Some(Box::pin(messages)),
        compressing: None,
        held: None,
        next: None,
        turn: Turn::default(),
    };
    let mut response = Response::new(Body::Streamed(axum::body::Body::new(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    if let Some(coding) = coding {
        response.headers_mut().insert("grpc-encoding", HeaderValue::from_static(coding.name()));
    }
    response
}

/// Body of messages, then the status.
struct Messages<S> {
    app: Arc<App>,
    coding: Option<Coding>,
    /// `None` after the status.
    messages: Option<Pin<Box<S>>>,
    /// A message that is being compressed.
    compressing: Option<Offloaded<Bytes>>,
    /// Memory of the last message, until there is room for another.
    held: Option<ResponseMemory>,
    /// Outcome of a poll that waits for the next turn.
    next: Option<Option<Result<Bytes>>>,
    turn: Turn,
}

impl<S: Stream<Item = Result<FramedMessages>>> Messages<S> {
    fn poll_next(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Option<Result<Bytes>>> {
        loop {
            if let Some(compressing) = &mut self.compressing {
                let frame = ready!(Pin::new(compressing).poll(cx));
                self.compressing = None;
                return Poll::Ready(Some(frame));
            }
            self.held = None;
            let Some(messages) = &mut self.messages else { return Poll::Ready(None) };
            let Some(message) = ready!(messages.as_mut().poll_next(cx)) else { return Poll::Ready(None) };
            let frames = message.map(|FramedMessages { frames, held }| {
                self.held = held;
                frames
            });
            match (frames, self.coding) {
                (Ok(frame), Some(coding)) => {
                    self.compressing = Some(compressed(coding, BodyChunks::from_iter([frame])))
                }
                (frames, _) => return Poll::Ready(Some(frames)),
            }
        }
    }
}

impl<S: Stream<Item = Result<FramedMessages>>> HttpBody for Messages<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        if self.messages.is_none() {
            return Poll::Ready(None);
        }
        if self.next.is_none() {
            self.next = match self.poll_next(cx) {
                Poll::Ready(next) => Some(next),
                Poll::Pending => {
                    self.turn.end();
                    return Poll::Pending;
                }
            };
        }
        if let Some(Some(Ok(frames))) = &self.next {
            let bytes = frames.len();
            ready!(self.turn.poll_send(cx, bytes));
        }
        let trailers = match self.next.take().flatten() {
            Some(Ok(frames)) => return Poll::Ready(Some(Ok(Frame::data(frames)))),
            Some(Err(error)) => status::error_headers(&self.app, &error),
            None => status::ok_trailers(),
        };
        // Running requests have no client any more.
        self.messages = None;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}

impl Compression {
    /// Returns the coding.
    pub(super) const fn coding(self) -> Coding {
        match self {
            Self::Gzip => Coding::Gzip,
            Self::Deflate => Coding::Deflate,
            Self::Zstd => Coding::Zstd,
        }
    }
}
