//! The pieces of a request's body, as they come off the connection.

use crate::front::Incoming;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use penstock_core::{Error, Kind, Result};

/// The next piece of data; `None` at the end. Trailers are passed over.
///
/// # Errors
/// `Cancelled` when the client leaves before the end.
pub(crate) async fn next<B: Incoming>(body: &mut B) -> Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Error::new(Kind::Cancelled, "the request's body could not be read to its end"))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
