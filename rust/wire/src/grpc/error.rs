//! Error kinds as gRPC status codes.

use penstock_core::Kind;

/// The status code of an error kind. `overload_unavailable` answers a full queue with `UNAVAILABLE`,
/// which some clients retry, instead of `RESOURCE_EXHAUSTED`.
///
/// ```
/// use penstock_core::Kind;
/// use penstock_wire::grpc::error::code;
///
/// assert_eq!(code(Kind::NotFound, false), 5);
/// assert_eq!(code(Kind::Overloaded, true), 14);
/// ```
pub fn code(kind: Kind, overload_unavailable: bool) -> i32 {
    match kind {
        Kind::Cancelled => CANCELLED,
        Kind::InvalidInput => INVALID_ARGUMENT,
        Kind::Timeout => DEADLINE_EXCEEDED,
        Kind::NotFound => NOT_FOUND,
        Kind::Forbidden => PERMISSION_DENIED,
        Kind::TooLarge => RESOURCE_EXHAUSTED,
        Kind::Overloaded if overload_unavailable => UNAVAILABLE,
        Kind::Overloaded => RESOURCE_EXHAUSTED,
        Kind::MethodNotAllowed | Kind::UnsupportedEncoding | Kind::Unsupported => UNIMPLEMENTED,
        Kind::Handler | Kind::Internal => INTERNAL,
        Kind::Unavailable => UNAVAILABLE,
    }
}

const CANCELLED: i32 = 1;
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const UNIMPLEMENTED: i32 = 12;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_code_of_the_protocol_reference() {
        let codes = Kind::ALL.map(|kind| (kind.name(), code(kind, false)));
        let expected = [
            ("invalid_input", 3),
            ("not_found", 5),
            ("method_not_allowed", 12),
            ("too_large", 8),
            ("unsupported_encoding", 12),
            ("unsupported", 12),
            ("forbidden", 7),
            ("overloaded", 8),
            ("unavailable", 14),
            ("timeout", 4),
            ("cancelled", 1),
            ("handler", 13),
            ("internal", 13),
        ];
        assert_eq!(codes, expected);
    }

    #[test]
    fn the_flag_changes_overload_only() {
        let changed: Vec<_> = Kind::ALL.into_iter().filter(|&kind| code(kind, true) != code(kind, false)).collect();
        assert_eq!(changed, [Kind::Overloaded]);
        assert_eq!(code(Kind::Overloaded, true), 14);
    }
}
