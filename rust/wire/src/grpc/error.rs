//! Error kinds as gRPC status codes.

use penstock_core::Kind;

/// Returns the status code of an error kind.
///
/// ```
/// use penstock_core::Kind;
/// use penstock_wire::grpc::error::code;
///
/// assert_eq!(code(Kind::NotFound), 5);
/// assert_eq!(code(Kind::Overloaded), 8);
/// ```
pub fn code(kind: Kind) -> i32 {
    match kind {
        Kind::Cancelled => CANCELLED,
        Kind::InvalidInput => INVALID_ARGUMENT,
        Kind::Timeout => DEADLINE_EXCEEDED,
        Kind::NotFound => NOT_FOUND,
        Kind::AlreadyExists => ALREADY_EXISTS,
        Kind::Unauthenticated => UNAUTHENTICATED,
        Kind::Forbidden => PERMISSION_DENIED,
        Kind::TooLarge | Kind::Overloaded | Kind::Throttled => RESOURCE_EXHAUSTED,
        Kind::MethodNotAllowed | Kind::UnsupportedEncoding | Kind::Unsupported => UNIMPLEMENTED,
        Kind::Handler | Kind::Internal => INTERNAL,
        Kind::Unavailable => UNAVAILABLE,
    }
}

/// Returns the error kind of a response's status code.
///
/// `INTERNAL` and `UNKNOWN` are the model's fault, the likelier one; `RESOURCE_EXHAUSTED` is a full
/// queue, the one of its meanings for which a later try may help.
pub fn kind(code: i32) -> Kind {
    match code {
        CANCELLED => Kind::Cancelled,
        DEADLINE_EXCEEDED => Kind::Timeout,
        NOT_FOUND => Kind::NotFound,
        ALREADY_EXISTS => Kind::AlreadyExists,
        PERMISSION_DENIED => Kind::Forbidden,
        UNAUTHENTICATED => Kind::Unauthenticated,
        RESOURCE_EXHAUSTED => Kind::Overloaded,
        UNIMPLEMENTED => Kind::Unsupported,
        UNKNOWN | INTERNAL => Kind::Handler,
        UNAVAILABLE => Kind::Unavailable,
        INVALID_ARGUMENT | FAILED_PRECONDITION | OUT_OF_RANGE => Kind::InvalidInput,
        _ => Kind::Internal,
    }
}

const CANCELLED: i32 = 1;
const UNKNOWN: i32 = 2;
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const NOT_FOUND: i32 = 5;
const ALREADY_EXISTS: i32 = 6;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const FAILED_PRECONDITION: i32 = 9;
const OUT_OF_RANGE: i32 = 11;
const UNIMPLEMENTED: i32 = 12;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::Dialect;

    #[test]
    fn grpc_codes_match_the_protocol_reference() {
        let codes = Kind::ALL.map(|kind| (kind.name(), code(kind)));
        let expected = [
            ("invalid_input", 3),
            ("not_found", 5),
            ("already_exists", 6),
            ("method_not_allowed", 12),
            ("too_large", 8),
            ("unsupported_encoding", 12),
            ("unsupported", 12),
            ("unauthenticated", 16),
            ("forbidden", 7),
            ("throttled", 8),
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
    fn grpc_codes_map_back_to_kinds() {
        let kinds = [Kind::InvalidInput, Kind::NotFound, Kind::Unauthenticated, Kind::Forbidden, Kind::Overloaded];
        for one in kinds.into_iter().chain([Kind::Timeout]) {
            assert_eq!(kind(code(one)), one);
        }
        assert_eq!([1, 2, 9, 12, 13, 14, 15, 16, 99].map(kind), {
            use Kind::{Cancelled, Handler, Internal, InvalidInput, Unauthenticated, Unavailable, Unsupported};
            [Cancelled, Handler, InvalidInput, Unsupported, Handler, Unavailable, Internal, Unauthenticated, Internal]
        });
    }

    #[test]
    fn triton_changes_overload_and_timeout_only() {
        let triton = |kind| code(Dialect::Triton.response_kind(kind));
        let changed: Vec<_> = Kind::ALL.into_iter().filter(|&kind| triton(kind) != code(kind)).collect();
        assert_eq!(changed, [Kind::Overloaded, Kind::Timeout]);
        assert_eq!(changed.into_iter().map(triton).collect::<Vec<_>>(), [14, 14]);
    }
}
