//! Errors as REST has them.

use crate::json::string;
use penstock_core::{Error, Kind};

/// Returns the HTTP status of a kind.
pub const fn status(kind: Kind) -> u16 {
    match kind {
        Kind::InvalidInput | Kind::AlreadyExists => 400,
        Kind::Unauthenticated => 401,
        Kind::Forbidden => 403,
        Kind::NotFound => 404,
        Kind::MethodNotAllowed => 405,
        Kind::TooLarge => 413,
        Kind::UnsupportedEncoding => 415,
        Kind::Overloaded | Kind::Throttled => 429,
        Kind::Cancelled => 499,
        Kind::Handler | Kind::Internal => 500,
        Kind::Unsupported => 501,
        Kind::Unavailable => 503,
        Kind::Timeout => 504,
    }
}

/// Body of an error response: `{"error": message}`. Never empty, since some clients fail on an empty body.
pub fn body(error: &Error) -> Vec<u8> {
    let mut out = Vec::with_capacity(error.message().len() + 16);
    out.extend_from_slice(b"{\"error\":");
    string::write(&mut out, error.message());
    out.push(b'}');
    out
}

/// Returns the error kind of a status. 500 is attributed to the model, the likelier cause.
///
/// Other statuses below 500 are the client's fault, others the server's.
pub const fn kind(status: u16) -> Kind {
    match status {
        401 => Kind::Unauthenticated,
        403 => Kind::Forbidden,
        404 => Kind::NotFound,
        405 => Kind::MethodNotAllowed,
        413 => Kind::TooLarge,
        415 => Kind::UnsupportedEncoding,
        429 => Kind::Overloaded,
        499 => Kind::Cancelled,
        500 => Kind::Handler,
        501 => Kind::Unsupported,
        502 | 503 => Kind::Unavailable,
        408 | 504 => Kind::Timeout,
        400..500 => Kind::InvalidInput,
        _ => Kind::Internal,
    }
}

/// Returns the message in an error's body: `error`, or another server's key in its place; else the start of the body.
pub fn message_of(body: &[u8]) -> String {
    let message = serde_json::from_slice::<serde_json::Value>(body).ok().and_then(|json| {
        let message = ["error", "detail", "message"].iter().find_map(|key| json.get(key))?;
        Some(message.as_str().map_or_else(|| message.to_string(), str::to_owned))
    });
    message.unwrap_or_else(|| String::from_utf8_lossy(&body[..body.len().min(LONGEST)]).trim().to_owned())
}

/// The most bytes of a body that is shown as it is.
const LONGEST: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::Dialect;

    #[test]
    fn http_statuses_match_the_kinds() {
        let expected = [400, 404, 400, 405, 413, 415, 501, 401, 403, 429, 429, 503, 504, 499, 500, 500];
        assert_eq!(Kind::ALL.map(status), expected);
        let triton = |kind| status(Dialect::Triton.response_kind(kind));
        assert_eq!([Kind::Overloaded, Kind::Timeout].map(triton), [503, 503]);
    }

    #[test]
    fn error_body_is_json() {
        let error = Error::invalid("input 'a\"b' is\nwrong");
        assert_eq!(body(&error), br#"{"error":"input 'a\"b' is\nwrong"}"#);
    }

    #[test]
    fn http_statuses_map_back_to_kinds() {
        // Of two kinds with one status, the likelier one.
        let likelier = |kind: &Kind| !matches!(kind, Kind::Internal | Kind::AlreadyExists | Kind::Throttled);
        for kind_of in Kind::ALL.into_iter().filter(likelier) {
            assert_eq!(kind(status(kind_of)), kind_of);
        }
        assert_eq!([422, 418, 502, 401, 599].map(kind), {
            [Kind::InvalidInput, Kind::InvalidInput, Kind::Unavailable, Kind::Unauthenticated, Kind::Internal]
        });
    }

    #[test]
    fn error_message_is_read_in_every_dialect() {
        for (body, expected) in [
            (&br#"{"error":"no\n"}"#[..], "no\\n"),
            (br#"{"detail":"not there"}"#, "not there"),
            (br#"{"detail":[{"msg":"a"}]}"#, r#"[{"msg":"a"}]"#),
            (b" plain\n", "plain"),
            (b"", ""),
        ] {
            assert_eq!(message_of(body).replace('\n', "\\n"), expected);
        }
        assert_eq!(message_of(&[b'a'; 999]).len(), LONGEST);
    }
}
