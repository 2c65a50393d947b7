//! The key that a request carries.

use http::{HeaderMap, HeaderName, header::AUTHORIZATION};
use penstock_core::{Error, Result};
use subtle::ConstantTimeEq as _;

/// Scheme before the key in the header `authorization`. It is case-insensitive.
const BEARER: &[u8] = b"Bearer ";

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Returns the key of the headers `authorization: Bearer KEY` and `x-api-key: KEY`, over gRPC of the metadata of these
/// names; `None` if there is none. Other schemes of `authorization` may be for a proxy, and are ignored.
///
/// # Errors
/// `InvalidInput` for two different keys.
pub(crate) fn of(headers: &HeaderMap) -> Result<Option<&[u8]>> {
    let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(BEARER.len())?;
        scheme.eq_ignore_ascii_case(BEARER).then_some(key)
    });
    let mut keys = bearer.chain(headers.get_all(API_KEY).iter().map(http::HeaderValue::as_bytes));
    let Some(first) = keys.next() else { return Ok(None) };
    match keys.all(|key| key.ct_eq(first).into()) {
        true => Ok(Some(first)),
        false => Err(Error::invalid("the headers 'authorization' and 'x-api-key' carry two different keys")),
    }
}

/// Compares two keys in constant time.
pub(crate) fn equal(one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.ct_eq(other).into(),
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn key_is_in_either_header() {
        assert_eq!(of(&headers(&[("authorization", "bEaReR a b")])).unwrap(), Some(&b"a b"[..]));
        assert_eq!(of(&headers(&[("x-api-key", "k")])).unwrap(), Some(&b"k"[..]));
        assert_eq!(of(&headers(&[("x-api-key", "k"), ("authorization", "Bearer k")])).unwrap(), Some(&b"k"[..]));
        assert_eq!(of(&headers(&[("authorization", "Basic eDp5")])).unwrap(), None);
    }

    #[test]
    fn two_keys_are_refused() {
        for pairs in [
            [("x-api-key", "a"), ("authorization", "Bearer b")],
            [("x-api-key", "a"), ("x-api-key", "b")],
            [("authorization", "Bearer a"), ("authorization", "Bearer b")],
        ] {
            assert!(of(&headers(&pairs)).unwrap_err().message().contains("two different keys"));
        }
    }
}
