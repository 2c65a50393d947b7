//! Response of a page of the server: one file without external resources, which its policy restricts to this server.

use crate::body::Body;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response};

/// A page, and the hashes of its style and its script: a browser accepts no other.
pub(super) struct Page {
    pub(super) html: Bytes,
    pub(super) style: &'static str,
    pub(super) script: &'static str,
}

impl Page {
    /// Returns the response.
    pub(super) fn respond(&self) -> Response<Body> {
        let Self { html, style, script } = self;
        let policy = format!(
            "default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        );
        let mut response = Response::new(Body::from(html.clone()));
        let headers = response.headers_mut();
        for (name, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("content-security-policy", policy.as_str()),
            // A server of another version may have this address tomorrow.
            ("cache-control", "no-cache"),
        ] {
            headers.extend(HeaderValue::try_from(value).ok().map(|value| (HeaderName::from_static(name), value)));
        }
        response
    }
}
