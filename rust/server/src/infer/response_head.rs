//! Status, headers and body that a model sets in its response.

use crate::{body::Body, settings::LogLevel, state::App};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
};
use penstock_core::{Error, InferResponse, Kind, Model, ResponseHead, Result};
use penstock_wire::rest::error as wire;

/// Hop-by-hop headers, which the server sets. A handler's are ignored: a handler that relays another server's response
/// may copy them.
const HOP_BY_HOP: [HeaderName; 6] = [CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Hop-by-hop headers without a constant in `http`.
const OTHER_HOP_BY_HOP: [&str; 3] = ["keep-alive", "proxy-connection", "http2-settings"];

/// Prefixes of headers that gRPC reserves.
const RESERVED_METADATA: [&str; 2] = ["grpc-", "content-type"];

/// Takes the head of a response. The names of tensors stay for the encoder.
pub(crate) fn take(response: &mut InferResponse) -> Option<ResponseHead> {
    let head = response.head.as_mut()?;
    let (headers, body) = (std::mem::take(&mut head.headers), head.body.take());
    Some(ResponseHead { status: head.status, headers, body, ..ResponseHead::default() })
}

/// Builds a response of the head and its body, if any.
///
/// # Errors
/// `Handler` for a status or header that HTTP does not allow.
pub(crate) fn to_response(app: &App, model: &Model, head: &ResponseHead) -> Result<Response<Body>> {
    let mut response = Response::new(Body::empty());
    set_head(app, model, head, &mut response)?;
    if let Some(body) = &head.body {
        *response.body_mut() = Body::from(body.clone());
        response.headers_mut().entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/octet-stream"));
    }
    // Responses of these statuses have no body.
    if [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&response.status()) {
        *response.body_mut() = Body::empty();
    }
    Ok(response)
}

/// Applies the head's status and headers. Headers that the response has already stay: they describe the server's
/// body.
///
/// # Errors
/// `Handler` for a status or header that HTTP does not allow.
pub(crate) fn apply(app: &App, model: &Model, head: &ResponseHead, response: &mut Response<Body>) -> Result<()> {
    if head.body.is_some() || *head == ResponseHead::default() {
        return Ok(());
    }
    let previous = response.headers().clone();
    set_head(app, model, head, response)?;
    previous.keys().for_each(|name| drop(response.headers_mut().remove(name)));
    response.headers_mut().extend(previous);
    Ok(())
}

fn set_head(app: &App, model: &Model, head: &ResponseHead, response: &mut Response<Body>) -> Result<()> {
    let outcome = status(model, head.status).and_then(|status| {
        *response.status_mut() = status;
        put(model, head, response.headers_mut(), is_hop_by_hop)
    });
    logged(app, outcome)
}

/// Logs an error of the handler too: its client may not show it.
fn logged(app: &App, head: Result<()>) -> Result<()> {
    head.inspect_err(|error| app.log.event(LogLevel::Error, error.message()))
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name) || OTHER_HOP_BY_HOP.contains(&name.as_str())
}

/// Writes the head's headers as initial metadata of a gRPC call.
///
/// # Errors
/// `Handler` for a status or header that HTTP does not allow.
pub(crate) fn to_metadata(app: &App, model: &Model, head: &ResponseHead, headers: &mut HeaderMap) -> Result<()> {
    let is_reserved = |name: &HeaderName| RESERVED_METADATA.iter().any(|own| name.as_str().starts_with(own));
    logged(app, put(model, head, headers, |name| is_hop_by_hop(name) || is_reserved(name)))
}

/// Adds the head's headers, each in place of previous ones of its name.
fn put(
    model: &Model,
    head: &ResponseHead,
    headers: &mut HeaderMap,
    is_skipped: impl Fn(&HeaderName) -> bool,
) -> Result<()> {
    let mut own = HeaderMap::new();
    for (name, value) in head.headers.iter() {
        let wrong = |what: &str| {
            Error::handler(format!(
                "model '{}' answered with a header {name:?} whose {what} HTTP does not allow",
                model.spec().name
            ))
        };
        let key = HeaderName::try_from(name).map_err(|_| wrong("name"))?;
        if is_skipped(&key) {
            continue;
        }
        let value = HeaderValue::try_from(value).map_err(|_| wrong("value"))?;
        own.try_append(key, value).map_err(|_| {
            Error::handler(format!("model '{}' answered with more headers than can be sent", model.spec().name))
        })?;
    }
    if headers.is_empty() {
        *headers = own;
    } else {
        headers.extend(own);
    }
    Ok(())
}

fn status(model: &Model, head: u16) -> Result<StatusCode> {
    StatusCode::from_u16(head).ok().filter(|status| (200..600).contains(&status.as_u16())).ok_or_else(|| {
        Error::handler(format!("model '{}' answered with the status {head}, expected 200 to 599", model.spec().name))
    })
}

/// Returns the error of a status from 400 on, with the body's message.
pub(crate) fn to_error(head: &ResponseHead) -> Option<Error> {
    let kind = match head.status {
        ..400 => return None,
        status => wire::kind(status),
    };
    // A handler's status is not a defect of the server.
    let kind = if kind == Kind::Internal { Kind::Handler } else { kind };
    Some(Error::new(kind, message(head.body.as_deref().unwrap_or_default())))
}

/// Returns the message of a body: the error member of a JSON object, else its text.
fn message(body: &[u8]) -> String {
    match std::str::from_utf8(body) {
        Ok(text) if !text.trim_start().starts_with('{') => text.trim().to_owned(),
        _ => wire::message_of(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Config;
    use http_body::Body as _;
    use penstock_core::{ModelSpec, metrics::Metrics};
    use std::sync::Arc;

    fn to_response(head: &ResponseHead) -> Result<Response<Body>> {
        let metrics = Arc::new(Metrics::default());
        let model = Model::new(ModelSpec { name: "m".into(), ..ModelSpec::default() }, &metrics);
        super::to_response(&App::new(Config::default(), Arc::default(), metrics).unwrap(), &model, head)
    }

    fn head(status: u16, headers: &[(&str, &str)], body: &str) -> ResponseHead {
        let headers = headers.iter().copied().collect();
        ResponseHead { status, headers, body: Some(body.to_owned().into()), ..ResponseHead::default() }
    }

    #[test]
    fn handler_response_sets_status_and_headers() {
        let headers = [("Content-Type", "text/csv"), ("Set-Cookie", "a"), ("set-cookie", "b"), ("Content-Length", "7")];
        let response = to_response(&head(201, &headers, "1,2")).unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["content-type"].as_bytes()),
            (201, &b"text/csv"[..])
        );
        assert_eq!(response.headers().get_all("set-cookie").iter().count(), 2);
        assert!(!response.headers().contains_key("content-length"));
        assert_eq!(response.body().size_hint().exact(), Some(3));
        let empty = to_response(&head(204, &[], "gone")).unwrap();
        assert_eq!(empty.body().size_hint().exact(), Some(0));
    }

    #[test]
    fn invalid_response_head_is_a_handler_error() {
        for (status, headers, expected) in [
            (99, vec![], "the status 99, expected 200 to 599"),
            (101, vec![], "the status 101, expected 200 to 599"),
            (600, vec![], "the status 600, expected 200 to 599"),
            (200, vec![("x", "a\r\nset-cookie: b")], "a header \"x\" whose value HTTP does not allow"),
            (200, vec![("x", "a\0")], "a header \"x\" whose value HTTP does not allow"),
            (200, vec![("x\r\ny", "a")], "a header \"x\\r\\ny\" whose name HTTP does not allow"),
            (200, vec![("", "a")], "a header \"\" whose name HTTP does not allow"),
        ] {
            let error = to_response(&head(status, &headers, "")).expect_err(expected);
            assert_eq!(error.kind(), Kind::Handler);
            assert_eq!(error.message(), format!("model 'm' answered with {expected}"));
        }
    }

    #[test]
    fn many_headers_are_sent_but_too_many_names_are_refused() {
        let cookies = vec![("set-cookie", "a"); 30_000];
        assert_eq!(
            to_response(&head(200, &cookies, "")).unwrap().headers().get_all("set-cookie").iter().count(),
            30_000
        );
        let names: Vec<String> = (0..30_000).map(|number| format!("x-{number}")).collect();
        let headers: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "a")).collect();
        let error = to_response(&head(200, &headers, "")).expect_err("HTTP's types have no room for so many");
        assert_eq!(error.kind(), Kind::Handler);
        assert_eq!(error.message(), "model 'm' answered with more headers than can be sent");
    }

    #[test]
    fn error_status_maps_to_a_kind() {
        assert!(to_error(&head(399, &[], "")).is_none());
        for (status, body, kind, message) in [
            (404, "no such customer\n", Kind::NotFound, "no such customer"),
            (422, r#"{"error": "too \"young\""}"#, Kind::InvalidInput, "too \"young\""),
            (503, r#"{"detail": "later"}"#, Kind::Unavailable, "later"),
            (507, "", Kind::Handler, ""),
        ] {
            let error = to_error(&head(status, &[], body)).unwrap();
            assert_eq!((error.kind(), error.message()), (kind, message), "{status}");
        }
    }
}
