//! What a model tells of its answer beside tensors: a status, headers, a whole body.

use crate::{body::Body, settings::LogLevel, state::App};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE},
};
use penstock_core::{Error, InferResponse, Kind, Model, ResponseHead, Result};
use penstock_wire::rest::error as wire;

/// Headers that say how a connection carries a message. They are the server's to set, so a handler's are passed over:
/// one that hands on another server's answer has them too.
const OF_THE_CONNECTION: [HeaderName; 6] = [CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// The same, without a constant of their own.
const ALSO_OF_THE_CONNECTION: [&str; 3] = ["keep-alive", "proxy-connection", "http2-settings"];

/// How the names of headers begin that gRPC has for itself.
const METADATA_OF_ITS_OWN: [&str; 2] = ["grpc-", "content-type"];

/// Takes out what is told. The names of tensors stay: they are the encoder's.
pub(crate) fn take(response: &mut InferResponse) -> Option<ResponseHead> {
    let told = response.head.as_mut()?;
    let (headers, body) = (std::mem::take(&mut told.headers), told.body.take());
    Some(ResponseHead { status: told.status, headers, body, ..ResponseHead::default() })
}

/// A told body as an answer; one that is not told is empty.
///
/// # Errors
/// `Handler` for what HTTP does not allow.
pub(crate) fn to_response(app: &App, model: &Model, told: &ResponseHead) -> Result<Response<Body>> {
    let mut answer = Response::new(Body::empty());
    set_head(app, model, told, &mut answer)?;
    if let Some(body) = &told.body {
        *answer.body_mut() = Body::from(body.clone());
        answer.headers_mut().entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/octet-stream"));
    }
    // These have none, whatever is told.
    if [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&answer.status()) {
        *answer.body_mut() = Body::empty();
    }
    Ok(answer)
}

/// Gives an answer the status and the headers that are told. Those that it has already stay as they are: they say what
/// its body is, which the server has made.
///
/// # Errors
/// `Handler` for what HTTP does not allow.
pub(crate) fn apply(app: &App, model: &Model, told: &ResponseHead, answer: &mut Response<Body>) -> Result<()> {
    if told.body.is_some() || *told == ResponseHead::default() {
        return Ok(());
    }
    let kept = answer.headers().clone();
    set_head(app, model, told, answer)?;
    kept.keys().for_each(|name| drop(answer.headers_mut().remove(name)));
    answer.headers_mut().extend(kept);
    Ok(())
}

fn set_head(app: &App, model: &Model, told: &ResponseHead, answer: &mut Response<Body>) -> Result<()> {
    let outcome = status(model, told.status).and_then(|status| {
        *answer.status_mut() = status;
        put(model, told, answer.headers_mut(), is_of_the_connection)
    });
    logged(app, outcome)
}

/// A mistake of the handler's is said in the log too: its client may not show it.
fn logged(app: &App, told: Result<()>) -> Result<()> {
    told.inspect_err(|error| app.log.event(LogLevel::Error, error.message()))
}

fn is_of_the_connection(name: &HeaderName) -> bool {
    OF_THE_CONNECTION.contains(name) || ALSO_OF_THE_CONNECTION.contains(&name.as_str())
}

/// The told headers as initial metadata of a gRPC call.
///
/// # Errors
/// `Handler` for what HTTP does not allow.
pub(crate) fn to_metadata(app: &App, model: &Model, told: &ResponseHead, headers: &mut HeaderMap) -> Result<()> {
    let is_its_own = |name: &HeaderName| METADATA_OF_ITS_OWN.iter().any(|own| name.as_str().starts_with(own));
    logged(app, put(model, told, headers, |name| is_of_the_connection(name) || is_its_own(name)))
}

/// Adds the told headers, each in place of what was there under its name before.
fn put(
    model: &Model,
    told: &ResponseHead,
    headers: &mut HeaderMap,
    passed_over: impl Fn(&HeaderName) -> bool,
) -> Result<()> {
    let mut own = HeaderMap::new();
    for (name, value) in told.headers.iter() {
        let wrong = |what: &str| {
            Error::handler(format!(
                "model '{}' answered with a header {name:?} whose {what} HTTP does not allow",
                model.spec().name
            ))
        };
        let key = HeaderName::try_from(name).map_err(|_| wrong("name"))?;
        if passed_over(&key) {
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

fn status(model: &Model, told: u16) -> Result<StatusCode> {
    StatusCode::from_u16(told).ok().filter(|status| (200..600).contains(&status.as_u16())).ok_or_else(|| {
        Error::handler(format!("model '{}' answered with the status {told}, expected 200 to 599", model.spec().name))
    })
}

/// The error that a told status stands for, from 400 on. What its body says is the message.
pub(crate) fn to_error(told: &ResponseHead) -> Option<Error> {
    let kind = match told.status {
        ..400 => return None,
        status => wire::kind(status),
    };
    // Whatever a handler tells is no defect of the server.
    let kind = if kind == Kind::Internal { Kind::Handler } else { kind };
    Some(Error::new(kind, message(told.body.as_deref().unwrap_or_default())))
}

/// A body as a message: what it says of an error if it is JSON that does, else all of its text.
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

    fn whole(told: &ResponseHead) -> Result<Response<Body>> {
        let metrics = Arc::new(Metrics::default());
        let model = Model::new(ModelSpec { name: "m".into(), ..ModelSpec::default() }, &metrics);
        super::to_response(&App::new(Config::default(), Arc::default(), metrics), &model, told)
    }

    fn told(status: u16, headers: &[(&str, &str)], body: &str) -> ResponseHead {
        let headers = headers.iter().copied().collect();
        ResponseHead { status, headers, body: Some(body.to_owned().into()), ..ResponseHead::default() }
    }

    #[test]
    fn a_body_has_its_status_and_headers() {
        let headers = [("Content-Type", "text/csv"), ("Set-Cookie", "a"), ("set-cookie", "b"), ("Content-Length", "7")];
        let answer = whole(&told(201, &headers, "1,2")).unwrap();
        assert_eq!((answer.status().as_u16(), answer.headers()["content-type"].as_bytes()), (201, &b"text/csv"[..]));
        assert_eq!(answer.headers().get_all("set-cookie").iter().count(), 2);
        assert!(!answer.headers().contains_key("content-length"));
        assert_eq!(answer.body().size_hint().exact(), Some(3));
        let empty = whole(&told(204, &[], "gone")).unwrap();
        assert_eq!(empty.body().size_hint().exact(), Some(0));
    }

    #[test]
    fn what_http_does_not_allow_is_the_models_mistake() {
        for (status, headers, expected) in [
            (99, vec![], "the status 99, expected 200 to 599"),
            (101, vec![], "the status 101, expected 200 to 599"),
            (600, vec![], "the status 600, expected 200 to 599"),
            (200, vec![("x", "a\r\nset-cookie: b")], "a header \"x\" whose value HTTP does not allow"),
            (200, vec![("x", "a\0")], "a header \"x\" whose value HTTP does not allow"),
            (200, vec![("x\r\ny", "a")], "a header \"x\\r\\ny\" whose name HTTP does not allow"),
            (200, vec![("", "a")], "a header \"\" whose name HTTP does not allow"),
        ] {
            let error = whole(&told(status, &headers, "")).expect_err(expected);
            assert_eq!(error.kind(), Kind::Handler);
            assert_eq!(error.message(), format!("model 'm' answered with {expected}"));
        }
    }

    #[test]
    fn there_may_be_many_headers_but_not_any_number_of_names() {
        let cookies = vec![("set-cookie", "a"); 30_000];
        assert_eq!(whole(&told(200, &cookies, "")).unwrap().headers().get_all("set-cookie").iter().count(), 30_000);
        let names: Vec<String> = (0..30_000).map(|number| format!("x-{number}")).collect();
        let headers: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "a")).collect();
        let error = whole(&told(200, &headers, "")).expect_err("HTTP's types have no room for so many");
        assert_eq!(error.kind(), Kind::Handler);
        assert_eq!(error.message(), "model 'm' answered with more headers than can be sent");
    }

    #[test]
    fn a_status_is_the_error_that_it_stands_for() {
        assert!(to_error(&told(399, &[], "")).is_none());
        for (status, body, kind, message) in [
            (404, "no such customer\n", Kind::NotFound, "no such customer"),
            (422, r#"{"error": "too \"young\""}"#, Kind::InvalidInput, "too \"young\""),
            (503, r#"{"detail": "later"}"#, Kind::Unavailable, "later"),
            (507, "", Kind::Handler, ""),
        ] {
            let error = to_error(&told(status, &[], body)).unwrap();
            assert_eq!((error.kind(), error.message()), (kind, message), "{status}");
        }
    }
}
