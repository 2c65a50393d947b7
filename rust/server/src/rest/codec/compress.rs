//! Compresses successful inference responses for clients that accept it. Metadata, errors and events stay uncompressed:
//! clients that accept compressed tensors may not accept those compressed.

use crate::{
    body::{Body, offload},
    settings::Config,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY},
};
use http_body::Body as _;
use penstock_core::{BodyChunks, Result};
use penstock_wire::coding;

/// Smallest body that is compressed, in bytes.
const MIN_BYTES: usize = 1 << 10;

/// Cost of compressing a byte, relative to writing it as JSON.
const COST: usize = 8;

/// Compresses the body of a response if the setting is on, the client accepts it, and it becomes smaller.
///
/// # Errors
/// `Internal` if the compressor fails.
pub(crate) async fn compress(
    config: &Config,
    request_headers: &HeaderMap,
    response: Response<Body>,
) -> Result<Response<Body>> {
    let is_fit = response.status().is_success() && !response.headers().contains_key(CONTENT_ENCODING);
    if !config.compress_answers || !is_fit {
        return Ok(response);
    }
    // Boxed: most servers have the setting off, and would move the future with every request.
    Box::pin(compressed(request_headers, response)).await
}

async fn compressed(request_headers: &HeaderMap, response: Response<Body>) -> Result<Response<Body>> {
    let (mut head, mut body) = response.into_parts();
    head.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let size = body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    let coding = chosen(request_headers).filter(|_| size >= MIN_BYTES);
    let Some((coding, chunks)) = coding.and_then(|coding| Some((coding, body.take_chunks()?))) else {
        return Ok(Response::from_parts(head, body));
    };
    let (small, chunks) =
        offload::run(size.saturating_mul(COST), move || Ok((coding::compress(coding, &chunks)?, chunks))).await?;
    if small.len() >= size {
        return Ok(Response::from_parts(head, Body::new(chunks)));
    }
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    Ok(Response::from_parts(head, Body::new(BodyChunks::from_iter([Bytes::from(small)]))))
}

/// Returns the coding that the client prefers.
fn chosen(request_headers: &HeaderMap) -> Option<coding::Coding> {
    let mut values = request_headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let first = values.next()?;
    match values.next() {
        None => coding::choose(first),
        Some(second) => coding::choose(&[first, second].into_iter().chain(values).collect::<Vec<_>>().join(",")),
    }
}
