//! Error responses: one JSON body for all routes and statuses.

use crate::{body::Body, state::App};
use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use penstock_core::{Error, Kind};
use penstock_wire::{coding::ACCEPTED, rest::error as wire};

/// Challenge to clients without a valid key.
const CHALLENGE: &str = "Bearer realm=\"penstock\"";

/// Builds the response of an error.
pub(crate) fn response(app: &App, error: &Error) -> Response<Body> {
    let status = match error.is_slow_body() {
        true => 408,
        false => wire::status(app.config.dialect.response_kind(error.kind())),
    };
    let mut response = json(status, wire::body(error));
    let headers = response.headers_mut();
    if let Some(after) = error.retry_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(after));
    }
    match error.kind() {
        Kind::Unauthenticated => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE))),
        Kind::UnsupportedEncoding => drop(headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED))),
        // The rest of the body stays unread.
        kind if kind == Kind::TooLarge || error.is_slow_body() => {
            drop(headers.insert(CONNECTION, HeaderValue::from_static("close")))
        }
        _ => {}
    }
    response
}

/// Marks a response of the router, as opposed to a route that did not find something.
#[derive(Clone, Copy)]
struct NoRoute;

/// Reports whether no route answered.
pub(crate) fn is_of_no_route(response: &Response<Body>) -> bool {
    response.extensions().get::<NoRoute>().is_some()
}

fn of_no_route(mut response: Response<Body>) -> Response<Body> {
    response.extensions_mut().insert(NoRoute);
    response
}

/// Response to an unknown path.
pub(crate) fn not_found(nearest: Option<&str>) -> Response<Body> {
    let hint = nearest.map_or_else(String::new, |path| format!(": the nearest path is {path}"));
    of_no_route(json(404, wire::body(&Error::new(Kind::NotFound, format!("Not Found{hint}")))))
}

/// Response to a method that a path lacks.
pub(crate) fn method_not_allowed() -> Response<Body> {
    of_no_route(json(405, wire::body(&Error::new(Kind::MethodNotAllowed, "Method Not Allowed"))))
}

/// Response to malformed HTTP, after which the connection cannot be parsed.
pub(crate) fn broken(message: String) -> Response<Body> {
    let mut response = json(400, wire::body(&Error::invalid(message)));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Builds a JSON response. Clients compare the whole content type, so it has no charset.
pub(crate) fn json(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
