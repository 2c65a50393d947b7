//! Errors as REST has them.

use super::text;
use penstock_core::{Error, Kind};

/// The HTTP status of a kind.
///
/// `overload_unavailable` answers a full queue with 503, as Triton does, instead of 429.
pub const fn status(kind: Kind, overload_unavailable: bool) -> u16 {
    match kind {
        Kind::InvalidInput => 400,
        Kind::Forbidden => 403,
        Kind::NotFound => 404,
        Kind::MethodNotAllowed => 405,
        Kind::TooLarge => 413,
        Kind::UnsupportedEncoding => 415,
        Kind::Overloaded if overload_unavailable => 503,
        Kind::Overloaded => 429,
        Kind::Cancelled => 499,
        Kind::Handler | Kind::Internal => 500,
        Kind::Unsupported => 501,
        Kind::Unavailable => 503,
        Kind::Timeout => 504,
    }
}

/// The body of an error's answer: `{"error": message}`. Never empty, for clients that cannot read that.
pub fn body(error: &Error) -> Vec<u8> {
    let mut out = Vec::with_capacity(error.message().len() + 16);
    out.extend_from_slice(b"{\"error\":");
    text::write(&mut out, error.message());
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        let expected = [400, 404, 405, 413, 415, 501, 403, 429, 503, 504, 499, 500, 500];
        assert_eq!(Kind::ALL.map(|kind| status(kind, false)), expected);
        assert_eq!(status(Kind::Overloaded, true), 503);
    }

    #[test]
    fn the_body_is_json() {
        let error = Error::invalid("input 'a\"b' is\nwrong");
        assert_eq!(body(&error), br#"{"error":"input 'a\"b' is\nwrong"}"#);
    }
}
