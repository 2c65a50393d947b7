//! HTTP/2 connection that its calling thread drives.

use super::response::{builder, lost, unsent};
use crate::{
    blocking::{self, Gate, gated},
    failure::{Failure, Result},
    socket::{
        Stream,
        idle::{Idle, idle},
    },
};
use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// An HTTP/2 connection over a blocking socket, with one call at a time.
pub(crate) struct DrivenConnection {
    send: SendRequest<Bytes>,
    connection: Pin<Box<Connection<Stream, Bytes>>>,
    socket: Option<Arc<socket2::Socket>>,
}

/// Maximum of frames read from an idle connection before it is given up.
const MAX_IDLE_READS: usize = 16;

impl DrivenConnection {
    /// Performs the handshake.
    pub(crate) async fn new(stream: Stream) -> Result<Self> {
        let socket = stream.raw();
        let (send, connection) = builder().handshake(stream).await.map_err(|error| unsent(&error))?;
        Ok(Self { send, connection: Box::pin(connection), socket })
    }

    /// Returns the sender of requests.
    pub(crate) fn sender(&self) -> SendRequest<Bytes> {
        self.send.clone()
    }

    /// Drives a call: sends pending frames, reads once, and repeats.
    pub(crate) async fn run<T>(&mut self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let mut call = pin!(call);
        poll_fn(|cx| {
            if let Poll::Ready(done) = call.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            for gate in [Gate::Shut, Gate::Once] {
                let Poll::Ready(ended) = gated(gate, || self.connection.as_mut().poll(cx)) else {
                    if blocking::is_interrupted() {
                        return Poll::Pending;
                    }
                    continue;
                };
                // A call in flight has got the error.
                return Poll::Ready(match (call.as_mut().poll(cx), ended) {
                    (Poll::Ready(done), _) => done,
                    (Poll::Pending, Err(error)) => Err(lost(&error)),
                    (Poll::Pending, Ok(())) => Err(Failure::lost(
                        "the connection was lost while an answer was awaited",
                        &io::ErrorKind::UnexpectedEof.into(),
                    )),
                });
            }
            call.as_mut().poll(cx)
        })
        .await
    }

    /// Sends frames that the last call left. Returns whether the connection can be reused.
    pub(crate) fn flush(&mut self) -> bool {
        self.poll(Gate::Shut)
    }

    /// Reads the frames that arrived while idle. Returns whether the connection can be reused.
    pub(crate) fn is_idle(&mut self) -> bool {
        let Some(socket) = self.socket.clone() else { return false };
        for _ in 0..MAX_IDLE_READS {
            match idle(&socket) {
                Idle::Quiet => return true,
                Idle::Closed => return false,
                Idle::Readable if !self.poll(Gate::Once) => return false,
                Idle::Readable => {}
            }
        }
        false
    }

    fn poll(&mut self, gate: Gate) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        gated(gate, || self.connection.as_mut().poll(&mut context)).is_pending()
    }
}
