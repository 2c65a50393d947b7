//! Errors as gRPC statuses.

use crate::state::App;
use http::{HeaderMap, HeaderValue};
use penstock_core::{Error, Kind};
use penstock_wire::grpc::error::code;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::time::Instant;

/// Characters that are escaped in `grpc-message`: all but printable ASCII, and `%` itself.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// Returns the gRPC code of an error.
pub(crate) fn code_of(app: &App, error: &Error) -> i32 {
    code(app.config.dialect.response_kind(error.kind()))
}

/// Prefixes an error of a passed deadline with gRPC's own text: clients search for it, and the server may answer
/// before their own timer.
pub(super) fn late(error: Error, deadline: Option<Instant>) -> Error {
    let passed = error.kind() == Kind::Timeout && deadline.is_some_and(|deadline| deadline <= Instant::now());
    if passed { Error::new(Kind::Timeout, format!("Deadline Exceeded: {}", error.message())) } else { error }
}

/// Returns the trailers of a successful call.
pub(crate) fn ok_trailers() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}

/// Returns the headers of a failed call, which are its trailers too.
pub(crate) fn error_headers(app: &App, error: &Error) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert("grpc-status", HeaderValue::from(code_of(app, error)));
    if let Ok(message) = HeaderValue::try_from(utf8_percent_encode(error.message(), ENCODED).to_string()) {
        headers.insert("grpc-message", message);
    }
    if let (Kind::Overloaded | Kind::Throttled, Some(after)) = (error.kind(), error.retry_seconds()) {
        headers.insert("retry-after", HeaderValue::from(after));
    }
    headers
}
