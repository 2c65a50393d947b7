//! Requests that are sent as they are: of other protocols, other routes, other services.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use penstock_core::{Error, Result};

/// A request as it is.
#[derive(Clone, Debug)]
pub struct RawRequest {
    /// HTTP only: the method.
    pub method: String,
    /// The path after the target's own, with its query; of gRPC `/package.Service/Method`.
    pub path: String,
    /// The body, or the message.
    pub body: Bytes,
    /// Whether it may be sent again although the server may have worked on it.
    pub repeatable: bool,
}

/// An answer as it is; of gRPC only the message.
#[derive(Clone, Debug, Default)]
pub struct RawResponse {
    /// The HTTP status, whatever it is.
    pub status: u16,
    /// The headers as they came, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body before it was compressed, or the message.
    pub body: Vec<u8>,
}

impl RawRequest {
    /// That it can be written as one request.
    ///
    /// # Errors
    /// `InvalidInput` that says what cannot be sent.
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

/// Headers that are the client's own: of framing, which it alone knows.
const FRAMING: [&str; 4] = ["connection", "content-length", "te", "transfer-encoding"];

/// Headers that are the client's own also where the body is the caller's.
pub(crate) fn is_framing(name: &str, grpc: bool) -> bool {
    FRAMING.contains(&name) || (grpc && (name.starts_with("grpc-") || name == "content-type"))
}

/// That headers can be sent, and are not the client's own.
///
/// # Errors
/// `InvalidInput` that names the header.
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
    fn only_what_is_one_request_is_sent() {
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
    fn framing_is_not_for_the_caller_to_say() {
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
