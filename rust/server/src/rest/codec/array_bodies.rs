//! Bodies in array formats, which the content type selects; other bodies are the protocol's own.

use super::receive::receive_whole;
use crate::{
    body::{Body, RequestBody, offload},
    rest::headers::InferHeaders,
    settings::Config,
    state::RequestGuard,
};
use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use penstock_core::{InferResponse, Model, ModelSpec, ResponsePlan, Result};
use penstock_wire::{
    DecodedRequest,
    rest::bodies::{self, BodyLimits, Format, RequestOptions},
};
use percent_encoding::percent_decode_str;
use std::sync::Arc;

/// Formats of a request and of its response; `None` is the protocol's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Formats {
    pub(crate) request: Option<Format>,
    pub(crate) response: Option<Format>,
}

impl Formats {
    /// Reads the headers. Without `Accept` the response has the request's format.
    pub(crate) fn of(headers: &InferHeaders<'_>) -> Self {
        let request = text(headers.content_type).and_then(Format::from_content_type);
        // The header overrides the content type.
        let request = request.filter(|_| headers.json_length.is_none());
        let response = text(headers.accept).and_then(Format::accepted);
        Self { request, response: response.unwrap_or(request) }
    }
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value?.to_str().ok()
}

/// A request in an array format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayRequest<'a> {
    pub(crate) format: Format,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
}

/// Reads and decodes one body; a large one is decoded on a blocking thread.
///
/// # Errors
/// Those of a JSON body.
pub(crate) async fn receive<B: RequestBody>(
    spec: &Arc<ModelSpec>,
    request: ArrayRequest<'_>,
    body: B,
    config: &Config,
    guard: &mut RequestGuard,
) -> Result<DecodedRequest> {
    let members = members(request.query.unwrap_or_default());
    let extras = RequestOptions::from_query(spec, members.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    let bytes = receive_whole(request.headers, body, &config.limits, guard.memory()).await?;
    let limits = BodyLimits { lists: config.decode_limits(), inflated: config.limits.inflation() };
    let spec = Arc::clone(spec);
    offload::run(bytes.len(), move || bodies::decode(request.format, &spec, extras, bytes, &limits)).await
}

/// Decodes the members of a query. Members that are not UTF-8 are skipped.
fn members(query: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().ok().map(String::from);
    let pairs = query.split('&').filter_map(|member| member.split_once('='));
    pairs.filter_map(|(name, value)| Some((decoded(name)?, decoded(value)?))).collect()
}

/// Encodes a response in `format`; a large one on a blocking thread.
///
/// # Errors
/// `InvalidInput` for values that the format cannot hold.
pub(crate) async fn encode(
    format: Format,
    model: &Model,
    plan: ResponsePlan,
    response: InferResponse,
) -> Result<(Response<Body>, ResponsePlan)> {
    let size = response.outputs.iter().map(|tensor| tensor.as_slice().len()).sum();
    let spec = Arc::clone(model.spec());
    let (chunks, plan) =
        offload::run(size, move || Ok((bodies::encode(format, &spec, &plan, &response)?, plan))).await?;
    let mut http_response = Response::new(Body::new(chunks));
    http_response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    Ok((http_response, plan))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::headers::JSON_LENGTH;
    use http::header::{ACCEPT, HeaderName};

    fn formats(headers: &[(HeaderName, &'static str)]) -> (Option<Format>, Option<Format>) {
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let Formats { request, response } = Formats::of(&InferHeaders::of(&headers));
        (request, response)
    }

    #[test]
    fn content_type_and_accept_choose_the_formats() {
        use Format::{Arrow, Msgpack, Npy};
        let length = || HeaderName::from_static(JSON_LENGTH);
        for (headers, expected) in [
            (&[][..], (None, None)),
            (&[(CONTENT_TYPE, "application/json"), (ACCEPT, "*/*")], (None, None)),
            (&[(CONTENT_TYPE, "Application/X-npy; charset=x")], (Some(Npy), Some(Npy))),
            (&[(CONTENT_TYPE, "application/x-npy"), (ACCEPT, "*/*")], (Some(Npy), Some(Npy))),
            (&[(CONTENT_TYPE, "application/x-npy"), (ACCEPT, "application/json")], (Some(Npy), None)),
            (&[(CONTENT_TYPE, "application/x-npy"), (length(), "5")], (None, None)),
            (&[(ACCEPT, "application/vnd.apache.arrow.stream")], (None, Some(Arrow))),
            (&[(ACCEPT, "application/json;q=0.5, application/msgpack")], (None, Some(Msgpack))),
            (&[(ACCEPT, "application/json, application/msgpack")], (None, None)),
            (&[(ACCEPT, "application/msgpack;q=0")], (None, None)),
            (&[(CONTENT_TYPE, "application/vnd.msgpack"), (ACCEPT, "text/html")], (Some(Msgpack), Some(Msgpack))),
        ] {
            assert_eq!(formats(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn query_members_are_decoded() {
        let expected = [("output", "a&b"), ("id", "x y ü"), ("output", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(members("output=a%26b&id=x+y%20%C3%BC&flag&output=&bad=%ff"), expected);
        assert!(members("").is_empty());
    }
}
