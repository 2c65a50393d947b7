//! Moves long work from I/O threads, which have other connections to serve, to blocking threads.

use penstock_core::{Error, Kind, Result};
use std::{
    pin::Pin,
    task::{Context, Poll},
};
use tokio::task::JoinHandle;

/// Bytes of JSON from which decoding or encoding is moved: some hundred microseconds of work, against some tens for
/// the two thread switches.
pub(crate) const MIN_BYTES: usize = 256 << 10;

/// Result of work that was done at once, or that a blocking thread does.
#[must_use = "the result comes when it is awaited"]
pub(crate) enum Offloaded<T> {
    Here(Option<Result<T>>),
    Thread(JoinHandle<Result<T>>),
}

/// Runs `work` at once if it is small, else on a blocking thread. The future does not hold `work`,
/// because it would be moved with all futures around it.
///
/// # Errors
/// The error of `work`; `Internal` if it panics on its thread.
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
