//! Work that would keep an I/O thread from its other connections goes to a thread of its own.

use penstock_core::{Error, Kind, Result};

/// Bytes of JSON from which on decoding or encoding is handed over: some hundred microseconds of work,
/// against some tens for the way there and back.
pub(crate) const FROM_BYTES: usize = 256 << 10;

/// Runs `work` here if it is small, else on a thread where it may take its time.
///
/// # Errors
/// What `work` returns; `Internal` if it panics.
pub(crate) async fn run<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if bytes < FROM_BYTES {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Error::new(Kind::Internal, "the server failed on this request")))
}
