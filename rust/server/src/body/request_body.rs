//! Chunks of a request's body.

use super::timed_body::SlowBody;
use crate::observe::RequestLog;
use bytes::Bytes;
use http_body::Body as HttpBody;
use http_body_util::{BodyExt as _, Full};
use penstock_core::{Error, Kind, Result};
use std::{error::Error as StdError, io, sync::Arc};

/// Body of a request, from a socket or from memory.
pub(crate) trait RequestBody:
    HttpBody<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + Unpin
{
    /// Counts the received bytes for the request's log line.
    fn log_to(&mut self, log: &Arc<RequestLog>);
}

impl RequestBody for Full<Bytes> {
    fn log_to(&mut self, log: &Arc<RequestLog>) {
        log.received(self.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default());
    }
}

impl<B: RequestBody> RequestBody for &mut B {
    fn log_to(&mut self, log: &Arc<RequestLog>) {
        (**self).log_to(log);
    }
}

/// Returns the next chunk; `None` at the end. Trailers are skipped.
///
/// # Errors
/// `Cancelled` when the client leaves before the end, `InvalidInput` for a malformed body, `Timeout`
/// when it arrives too slowly.
pub(crate) async fn next_chunk<B: RequestBody>(body: &mut B) -> Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failed(&*error.into()))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Distinguishes a malformed body from a client that left: hyper marks the first in the cause.
fn failed(error: &(dyn StdError + 'static)) -> Error {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(slow) = error.downcast_ref::<SlowBody>() {
            return slow.error().clone();
        }
        if let Some(error) = error.downcast_ref::<io::Error>()
            && matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
        {
            return Error::invalid(format!("the request's chunked body is broken: {error}"));
        }
        cause = error.source();
    }
    Error::new(Kind::Cancelled, "the request's body could not be read to its end")
}

#[cfg(test)]
mod tests {
    use super::failed;
    use penstock_core::Kind;
    use std::io;

    #[test]
    fn malformed_body_is_not_a_cancellation() {
        let kind_of = |kind| failed(&axum::Error::new(io::Error::new(kind, "why"))).kind();
        assert_eq!(kind_of(io::ErrorKind::InvalidInput), Kind::InvalidInput);
        assert_eq!(kind_of(io::ErrorKind::InvalidData), Kind::InvalidInput);
        assert_eq!(kind_of(io::ErrorKind::UnexpectedEof), Kind::Cancelled);
        assert_eq!(kind_of(io::ErrorKind::ConnectionReset), Kind::Cancelled);
    }
}
