//! Compresses good answers for clients that ask for it. Only inference answers come here: clients that
//! take compressed tensors may not take compressed metadata, errors or events.

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

/// From this size on an answer is worth compressing.
const MIN_BYTES: usize = 1 << 10;

/// How many times longer a byte takes to compress than to write as JSON.
const COST: usize = 8;

/// Compresses the body of an answer if the server is set to, the client asks for it, and it helps.
///
/// # Errors
/// `Internal`, should a compressor fail.
pub(crate) async fn answer(config: &Config, asked: &HeaderMap, answer: Response<Body>) -> Result<Response<Body>> {
    let is_fit = answer.status().is_success() && !answer.headers().contains_key(CONTENT_ENCODING);
    if !config.compress_answers || !is_fit {
        return Ok(answer);
    }
    // Boxed: most servers are not, and would move its future with every request.
    Box::pin(compressed(asked, answer)).await
}

async fn compressed(asked: &HeaderMap, answer: Response<Body>) -> Result<Response<Body>> {
    let (mut head, mut body) = answer.into_parts();
    head.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let size = body.size_hint().exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    let coding = chosen(asked).filter(|_| size >= MIN_BYTES);
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

/// The coding that the client likes best.
fn chosen(asked: &HeaderMap) -> Option<coding::Coding> {
    let mut values = asked.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let first = values.next()?;
    match values.next() {
        None => coding::choose(first),
        Some(second) => coding::choose(&[first, second].into_iter().chain(values).collect::<Vec<_>>().join(",")),
    }
}
