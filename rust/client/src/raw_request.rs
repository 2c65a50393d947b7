//! Raw requests: other protocols, routes and services.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use penstock_core::{Error, Result};

/// A raw request.
#[derive(Clone, Debug)]
pub struct RawRequest {
    /// HTTP only: method.
    pub method: String,
    /// Path after the target's prefix, with its query; for gRPC `/package.Service/Method`.
    pub path: String,
    /// Body, or message.
    pub body: Bytes,
    /// The request may be repeated although the server may have processed it.
    pub repeatable: bool,
}

/// Response to a raw request; for gRPC only the message.
#[derive(Clone, Debug, Default)]
pub struct RawResponse {
    /// HTTP status.
    pub status: u16,
    /// Headers in order of arrival, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Decompressed body, or message.
    pub body: Vec<u8>,
}

impl RawRequest {
    /// Checks that it can be written as one request.
    ///
    /// # Errors
    /// `InvalidInput` with the part that cannot be sent.
    pub(crate) fn check(&self, grpc: bool) -> Result<()> {
        let path = self.path.as_str();
        if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || byte == b'#') {
            let shown = path.escape_default();
            return Err(Error::invalid(format!("the path '{shown}' is not '/...' in ASCII without spaces")));
        }
        if grpc {
            return Ok(());
        }
        match Method::from_bytes(self.method.as_bytes()) {
            Ok(method) if method != Method::CONNECT => Ok(()),
            _ => Err(Error::invalid(format!("'{}' is not a method of a request", self.method.escape_default()))),
        }
    }
}

/// Framing headers, which only the client can set.
const FRAMING: [&str; 4] = ["connection", "content-length", "te", "transfer-encoding"];

/// Returns whether only the client can set a header of raw requests.
pub(crate) fn is_framing(name: &str, grpc: bool) -> bool {
    FRAMING.contains(&name) || (grpc && (name.starts_with("grpc-") || name == "content-type"))
}

/// Checks that headers can be sent, and that the user may set them.
///
/// # Errors
/// `InvalidInput` with the header's name.
pub(crate) fn check_headers(headers: &[(String, String)], is_own: impl Fn(&str) -> bool) -> Result<()> {
    for (name, value) in headers {
        let known = name.to_ascii_lowercase();
        if HeaderName::from_bytes(known.as_bytes()).is_err() || HeaderValue::from_str(value).is_err() {
            return Err(Error::invalid(format!("header '{}' cannot be sent as it is", name.escape_default())));
        }
        if is_own(&known) {
            return Err(Error::invalid(format!("header '{name}' is the client's own")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(method: &str, path: &str, grpc: bool) -> Option<String> {
        let raw =
            RawRequest { method: method.to_owned(), path: path.to_owned(), body: Bytes::new(), repeatable: false };
        raw.check(grpc).err().map(|error| error.message().to_owned())
    }

    #[test]
    fn paths_and_methods_that_break_request_syntax_are_refused() {
        assert_eq!(refusal("POST", "/v1/models/m:predict?a=%20", false), None);
        assert_eq!(refusal("", "/a.B/C", true), None);
        for path in ["", "a", "/a b", "/a\r\nX: 1", "/é", "/a#b"] {
            let expected = format!("the path '{}' is not '/...' in ASCII without spaces", path.escape_default());
            assert_eq!(refusal("GET", path, false), Some(expected));
        }
        for method in ["", "G T", "GET / HTTP/1.1\r\n", "CONNECT"] {
            assert_eq!(
                refusal(method, "/", false),
                Some(format!("'{}' is not a method of a request", method.escape_default()))
            );
        }
    }

    #[test]
    fn client_headers_cannot_set_framing() {
        let refused = |name: &str, grpc| {
            let headers = [(name.to_owned(), "1".to_owned())];
            check_headers(&headers, |name| is_framing(name, grpc)).is_err()
        };
        assert!(refused("Content-Length", false) && refused("transfer-encoding", false));
        assert!(refused("grpc-timeout", true) && refused("Content-Type", true));
        assert!(!refused("Content-Type", false) && !refused("inference-header-content-length", false));
        assert!(refused("a b", false));
    }
}
