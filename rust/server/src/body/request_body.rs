//! The pieces of a request's body, as they come off the connection.

use super::timed_body::SlowBody;
use bytes::Bytes;
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use penstock_core::{Error, Kind, Result};
use std::{error::Error as StdError, io};

/// A request's body, from a socket or from memory.
pub(crate) trait RequestBody:
    HttpBody<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + Unpin + 'static
{
}

impl<B> RequestBody for B where
    B: HttpBody<Data = Bytes, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + Unpin + 'static
{
}

/// The next piece of data; `None` at the end. Trailers are passed over.
///
/// # Errors
/// `Cancelled` when the client leaves before the end, `InvalidInput` when what it sends is no body, `Timeout`
/// when it sends too slowly.
pub(crate) async fn next_chunk<B: RequestBody>(body: &mut B) -> Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failed(&*error.into()))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Tells a client that breaks the rules from one that leaves: hyper marks the first in the cause.
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
    fn a_broken_body_is_not_a_client_that_leaves() {
        let kind_of = |kind| failed(&axum::Error::new(io::Error::new(kind, "why"))).kind();
        assert_eq!(kind_of(io::ErrorKind::InvalidInput), Kind::InvalidInput);
        assert_eq!(kind_of(io::ErrorKind::InvalidData), Kind::InvalidInput);
        assert_eq!(kind_of(io::ErrorKind::UnexpectedEof), Kind::Cancelled);
        assert_eq!(kind_of(io::ErrorKind::ConnectionReset), Kind::Cancelled);
    }
}
