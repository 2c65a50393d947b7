//! Response bodies whose bytes are counted until they are sent. HTTP/2 lets a client
//! leave them unread while its connection continues.

use super::activity::{ActiveStream, Activity};
use crate::{body::Body, state::ResponseMemory};
use bytes::{Buf, Bytes};
use http::Version;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// Body of a response.
pub(crate) struct TrackedBody {
    body: Body,
    /// `None` over HTTP/1.1, which sends one response at a time: its socket shows whether it is read.
    activity: Option<Arc<Activity>>,
    /// Bytes of a complete body that are counted and not returned yet.
    left: usize,
    /// Memory of a large response, which each of its chunks shares.
    held: Option<Arc<ResponseMemory>>,
    /// Keeps the connection from counting as idle while the body is streamed.
    _stream: Option<ActiveStream>,
}

impl TrackedBody {
    /// Wraps the body of a response to a request of a version, on a connection.
    pub(crate) fn new(mut body: Body, version: Version, activity: &Arc<Activity>) -> Self {
        let activity_of_http2 = (version == Version::HTTP_2).then(|| Arc::clone(activity));
        let left = body.bytes();
        if let Some(activity) = &activity_of_http2 {
            activity.wait_for_reader(left);
        }
        let held = body.take_memory();
        let stream = body.is_streamed().then(|| activity.stream());
        Self { body, activity: activity_of_http2, left, held, _stream: stream }
    }

    fn count(&mut self, bytes: Bytes) -> TrackedChunk {
        let counted = self.activity.as_ref().map(|activity| {
            match self.left.checked_sub(bytes.len()) {
                Some(left) => self.left = left,
                None => activity.wait_for_reader(bytes.len()),
            }
            (Arc::clone(activity), bytes.len())
        });
        TrackedChunk { bytes, counted, _held: self.held.clone() }
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if let Some(activity) = &self.activity {
            activity.release(self.left);
        }
    }
}

impl HttpBody for TrackedBody {
    type Data = TrackedChunk;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<TrackedChunk>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| self.count(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A chunk of a response that hyper holds until it is sent.
pub(crate) struct TrackedChunk {
    bytes: Bytes,
    counted: Option<(Arc<Activity>, usize)>,
    _held: Option<Arc<ResponseMemory>>,
}

impl Buf for TrackedChunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some((activity, _)) = &self.counted {
            activity.took();
        }
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        let bytes = self.bytes.copy_to_bytes(len);
        if let Some((activity, _)) = &self.counted {
            activity.took();
        }
        bytes
    }
}

impl Drop for TrackedChunk {
    fn drop(&mut self) {
        if let Some((activity, bytes)) = &self.counted {
            activity.release(*bytes);
        }
    }
}
