//! Body of a response: a few chunks without copies, and gRPC's trailers.

use super::logged_body::LoggedBody;
use crate::{observe::RequestLog, state::ResponseMemory};
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use penstock_core::BodyChunks;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// Body of every response.
#[derive(Debug)]
pub(crate) enum Body {
    /// A body that is complete.
    Chunks {
        /// Unsent chunks, last first.
        reversed: BodyChunks,
        /// Sent after the last chunk.
        trailers: Option<HeaderMap>,
        /// Memory of a large response, until its last byte is sent.
        held: Option<Arc<ResponseMemory>>,
    },
    /// A body that is produced while it is sent.
    Streamed(axum::body::Body),
}

impl Body {
    /// Creates a body without trailers.
    pub(crate) fn new(chunks: BodyChunks) -> Self {
        Self::with_trailers(chunks, None)
    }

    /// Creates a body with trailers.
    pub(crate) fn with_trailers(mut chunks: BodyChunks, trailers: Option<HeaderMap>) -> Self {
        chunks.reverse();
        Self::Chunks { reversed: chunks, trailers, held: None }
    }

    /// Takes the chunks of a complete body without trailers.
    pub(crate) fn take_chunks(&mut self) -> Option<BodyChunks> {
        match self {
            Self::Chunks { reversed, trailers: None, .. } => {
                let mut chunks = std::mem::take(reversed);
                chunks.reverse();
                Some(chunks)
            }
            _ => None,
        }
    }

    /// Returns the bytes of a complete body; 0 for a streamed one.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Chunks { reversed, .. } => reversed.iter().map(Bytes::len).sum(),
            Self::Streamed(_) => 0,
        }
    }

    /// Attaches the reserved memory of a complete body; a streamed one reserves its own.
    pub(crate) fn with_memory(mut self, memory: Option<ResponseMemory>) -> Self {
        if let (Self::Chunks { held, .. }, Some(memory)) = (&mut self, memory) {
            *held = Some(Arc::new(memory));
        }
        self
    }

    /// Takes the reserved memory, for the sender.
    pub(crate) fn take_memory(&mut self) -> Option<Arc<ResponseMemory>> {
        if let Self::Chunks { held, .. } = self { held.take() } else { None }
    }

    /// Reports whether the body is produced while it is sent.
    pub(crate) const fn is_streamed(&self) -> bool {
        matches!(self, Self::Streamed(_))
    }

    /// Counts the bytes for the request's log line. Those of a streamed body are counted as they are sent, and the line
    /// is written after them; so is that of a large body where slow requests are recorded.
    pub(crate) fn logged(self, log: Arc<RequestLog>) -> Self {
        match self {
            Self::Streamed(body) => Self::Streamed(axum::body::Body::new(LoggedBody { body, log })),
            mut complete => {
                log.sent(complete.bytes());
                log.responded();
                if let Self::Chunks { held: Some(held), .. } = &mut complete
                    && log.is_timed()
                    && let Some(memory) = Arc::get_mut(held)
                {
                    memory.log_when_sent(log);
                }
                complete
            }
        }
    }

    /// Creates an empty body.
    pub(crate) fn empty() -> Self {
        Self::new(BodyChunks::new())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::new(smallvec::smallvec![bytes])
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Chunks { reversed, trailers, .. } => Poll::Ready(match reversed.pop() {
                Some(chunk) => Some(Ok(Frame::data(chunk))),
                None => trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
            }),
            Self::Streamed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Chunks { reversed, trailers, .. } => reversed.is_empty() && trailers.is_none(),
            Self::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Chunks { trailers: None, .. } => SizeHint::with_exact(self.bytes() as u64),
            // hyper would add a `content-length`, which gRPC does not use.
            Self::Chunks { .. } => SizeHint::default(),
            Self::Streamed(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_announced_only_without_trailers() {
        let chunks = || BodyChunks::from_iter([Bytes::from_static(b"abc"), Bytes::from_static(b"de")]);
        assert_eq!(Body::new(chunks()).size_hint().exact(), Some(5));
        assert_eq!(Body::with_trailers(chunks(), Some(HeaderMap::new())).size_hint().exact(), None);
    }
}
