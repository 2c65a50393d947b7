//! Limits on a request's headers, and headers that describe its body.

use super::error::json;
use crate::{body::Body, settings::Limits};
use http::{HeaderMap, HeaderValue, Response, Uri, header::CONTENT_ENCODING};
use penstock_core::{Error, Kind, Result};
use penstock_wire::{
    coding::{ACCEPTED, Coding},
    grpc::TIMEOUT_HEADER,
    rest::error::body,
};

pub(super) const JSON_LENGTH: &str = "inference-header-content-length";

/// Headers of an inference request that select its way: the first value of each. Found in one pass, because a look-up by
/// name hashes the name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InferHeaders<'a> {
    pub(crate) content_type: Option<&'a HeaderValue>,
    pub(crate) accept: Option<&'a HeaderValue>,
    /// Any coding of the body, `identity` included.
    pub(crate) content_encoding: Option<&'a HeaderValue>,
    pub(crate) json_length: Option<&'a HeaderValue>,
    pub(crate) timeout: Option<&'a HeaderValue>,
}

impl<'a> InferHeaders<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let mut found = Self::default();
        for (name, value) in headers {
            let slot = match name.as_str() {
                "content-type" => &mut found.content_type,
                "accept" => &mut found.accept,
                "content-encoding" => &mut found.content_encoding,
                JSON_LENGTH => &mut found.json_length,
                TIMEOUT_HEADER => &mut found.timeout,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
        found
    }
}

/// Refuses a head that is over a limit, before any other check.
#[expect(clippy::result_large_err, reason = "the error is the response, built once for a refused request")]
pub(crate) fn check_head(limits: &Limits, uri: &Uri, headers: &HeaderMap) -> std::result::Result<(), Response<Body>> {
    let refuse = |status, message: String| Err(json(status, body(&Error::new(Kind::TooLarge, message))));
    let length = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if length > limits.uri_bytes {
        return refuse(
            414,
            format!("the request's path has {length} bytes, at most {} are accepted", limits.uri_bytes),
        );
    }
    if headers.len() > limits.max_headers {
        return refuse(
            431,
            format!("the request has {} headers, at most {} are accepted", headers.len(), limits.max_headers),
        );
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > limits.max_header_bytes {
        return refuse(
            431,
            format!("the request's headers have {bytes} bytes, at most {} are accepted", limits.max_header_bytes),
        );
    }
    Ok(())
}

/// Returns the length of the JSON part of a body; `None` when the whole body is JSON.
///
/// # Errors
/// `InvalidInput` for a header that is not a length.
pub(crate) fn json_length(headers: &HeaderMap) -> Result<Option<usize>> {
    to_json_length(headers.get(JSON_LENGTH))
}

/// As [`json_length`], for the header's value.
///
/// # Errors
/// `InvalidInput` for a header that is not a length.
pub(crate) fn to_json_length(value: Option<&HeaderValue>) -> Result<Option<usize>> {
    let Some(value) = value else { return Ok(None) };
    let length = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    length.and_then(|text| text.parse().ok()).map(Some).ok_or_else(|| {
        Error::invalid(format!(
            "the header Inference-Header-Content-Length is {value:?}, expected a number of bytes from 0 to the body's length"
        ))
    })
}

/// Returns the compression of the body.
///
/// # Errors
/// `UnsupportedEncoding` for an unknown coding, and for more than one.
pub(crate) fn content_coding(headers: &HeaderMap) -> Result<Option<Coding>> {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or("?").trim();
    match Coding::from_name(text) {
        coding if values.next().is_none() && (coding.is_some() || is_identity(text)) => Ok(coding),
        _ => {
            let all: Vec<_> = headers
                .get_all(CONTENT_ENCODING)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            Err(Error::new(
                Kind::UnsupportedEncoding,
                format!("the content encoding {:?} is not supported, expected one of {ACCEPTED}", all.join(", ")),
            ))
        }
    }
}

fn is_identity(name: &str) -> bool {
    name.is_empty() || name.eq_ignore_ascii_case("identity")
}
