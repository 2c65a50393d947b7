//! Responses to web pages: CORS, by which browsers let pages of other origins read them, and HSTS.
//!
//! The Fetch standard defines CORS. Routes for operators never have it.

use super::Dispatcher;
use crate::{
    body::{Body, RequestBody},
    rest::{self, Endpoint},
    settings::{ANY_ORIGIN, Categories, Category, Config, Requirement},
};
use http::{
    HeaderMap, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
        ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
        ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, STRICT_TRANSPORT_SECURITY, VARY,
    },
    request::Parts,
};
use penstock_core::{Error, Kind, Protocol, Result};

/// Seconds for which browsers remember the response to a preflight.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Headers of responses that pages may read, besides those that the standard always allows.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "inference-header-content-length, retry-after, x-request-id, x-penstock-queue-seconds, \
     x-penstock-compute-seconds, x-penstock-batch-size, x-stream-id",
);

/// Categories of which no response is for pages of other origins.
const OF_OPERATORS: [Category; 5] =
    [Category::SharedMemory, Category::ModelRepository, Category::Trace, Category::Logging, Category::Debug];

/// Rules of one listener for responses to web pages.
#[derive(Debug)]
pub(super) struct PageRules {
    origins: Option<Origins>,
    hsts: Option<HeaderValue>,
    closed: Categories,
}

/// Origins that may read responses.
#[derive(Debug)]
enum Origins {
    Any,
    These(Vec<HeaderValue>),
}

impl PageRules {
    /// Returns the rules of a listener.
    pub(super) fn new(config: &Config, is_encrypted: bool) -> Self {
        let settings = &config.web;
        let origins = match settings.cors_origins.as_slice() {
            [] => None,
            origins if origins.iter().any(|origin| origin == ANY_ORIGIN) => Some(Origins::Any),
            origins => Some(Origins::These(origins.iter().filter_map(|origin| origin.parse().ok()).collect())),
        };
        let hsts = settings.hsts.filter(|_| is_encrypted);
        let hsts = hsts.and_then(|age| HeaderValue::try_from(format!("max-age={}", age.as_secs())).ok());
        Self { origins, hsts, closed: Categories::of(OF_OPERATORS) }
    }

    /// Reports whether there are no rules.
    pub(super) const fn is_empty(&self) -> bool {
        self.origins.is_none() && self.hsts.is_none()
    }

    /// Answers a preflight, with which a browser asks whether a page may send a request; `None` for other requests.
    fn preflight(&self, dispatcher: &Dispatcher, head: &Parts) -> Option<Result<Response<Body>>> {
        let origins = self.origins.as_ref()?;
        let (origin, method) = (head.headers.get(ORIGIN)?, head.headers.get(ACCESS_CONTROL_REQUEST_METHOD)?);
        if head.method != Method::OPTIONS {
            return None;
        }
        let Ok(requested) = Method::from_bytes(method.as_bytes()) else {
            return Some(Err(Error::invalid("the header 'Access-Control-Request-Method' is not a method")));
        };
        let Some(allowed) = origins.allow(origin).filter(|_| self.is_open(dispatcher, &requested, head.uri.path()))
        else {
            let origin = String::from_utf8_lossy(origin.as_bytes()).escape_debug().take(256).collect::<String>();
            return Some(Err(Error::new(
                Kind::Forbidden,
                format!(
                    "web pages of the origin '{origin}' may not send {requested} to this path: see the server's setting \
                     'cors_origins', which does not open the routes of operators"
                ),
            )));
        };
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
        if let Some(names) = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        origins.mark(headers, allowed);
        Some(Ok(response))
    }

    /// Adds the headers by which a page may read a response.
    fn allow_origin(&self, dispatcher: &Dispatcher, head: &Parts, headers: &mut HeaderMap) {
        let Some(origins) = &self.origins else { return };
        let allowed = head.headers.get(ORIGIN).and_then(|origin| origins.allow(origin));
        match allowed.filter(|_| self.is_open(dispatcher, &head.method, head.uri.path())) {
            Some(allowed) => {
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
                origins.mark(headers, allowed);
            }
            // A cache must not give this response to a page that may read it.
            None => origins.vary(headers),
        }
    }

    /// Reports whether a route is open to pages of other origins.
    fn is_open(&self, dispatcher: &Dispatcher, method: &Method, path: &str) -> bool {
        let endpoint = Endpoint::find(&dispatcher.context.app.config, path);
        let of_operators =
            matches!(endpoint.requirement(method), Requirement::Category(one) if self.closed.contain(one));
        !of_operators && !endpoint.is_live_page()
    }
}

impl Origins {
    /// Returns the value of `Access-Control-Allow-Origin` for a page that may read the response.
    fn allow(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        match self {
            Self::Any => Some(HeaderValue::from_static(ANY_ORIGIN)),
            Self::These(origins) => origins.iter().find(|allowed| *allowed == origin).cloned(),
        }
    }

    fn mark(&self, headers: &mut HeaderMap, allowed: HeaderValue) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        if matches!(self, Self::These(_)) {
            // Client certificates and proxies' cookies; never for any origin.
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        self.vary(headers);
    }

    /// Says that the response depends on the origin.
    fn vary(&self, headers: &mut HeaderMap) {
        if matches!(self, Self::These(_)) {
            headers.append(VARY, HeaderValue::from(ORIGIN));
        }
    }
}

impl Dispatcher {
    /// Answers a request by the rules for web pages.
    pub(super) async fn respond_to_page<B: RequestBody>(
        &self,
        rules: &PageRules,
        (head, body): (&Parts, &mut B),
        protocol: Protocol,
    ) -> Response<Body> {
        let mut response = match rules.preflight(self, head) {
            Some(Ok(response)) => response,
            Some(Err(error)) => rest::refusal(self.count_refused(head, &error), &error),
            None => {
                let mut response = self.respond(head, body, protocol).await;
                rules.allow_origin(self, head, response.headers_mut());
                response
            }
        };
        if let Some(hsts) = &rules.hsts {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
        response
    }
}
