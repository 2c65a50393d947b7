//! Work that would keep an I/O thread from its other connections goes to a thread of its own.

use penstock_core::{Error, Kind, Result};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::task::JoinHandle;

/// Bytes of JSON from which on decoding or encoding is handed over: some hundred microseconds of work,
/// against some tens for the way there and back.
pub(crate) const MIN_BYTES: usize = 256 << 10;

/// Work that was done here, or that a thread is at.
#[must_use = "the result comes when it is awaited"]
pub(crate) enum Offloaded<T> {
    Here(Option<Result<T>>),
    Thread(JoinHandle<Result<T>>),
}

/// Runs `work` here and now if it is small, else on a thread where it may take its time. No future holds what
/// `work` needs: it would be moved with it.
///
/// # Errors
/// What `work` returns; `Internal` if it panics on its thread.
pub(crate) fn run<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> Result<T> + Send + 'static) -> Offloaded<T> {
    if bytes < MIN_BYTES {
        return Offloaded::Here(Some(work()));
    }
    Offloaded::Thread(tokio::task::spawn_blocking(work))
}

// The result is never pinned: it is moved out.
impl<T> Unpin for Offloaded<T> {}

impl<T> Future for Offloaded<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Here(done) => done.take().map_or(Poll::Pending, Poll::Ready),
            Self::Thread(thread) => Pin::new(thread).poll(cx).map(|done| {
                done.unwrap_or_else(|_| Err(Error::new(Kind::Internal, "the server failed on this request")))
            }),
        }
    }
}
