//! Parser of W3C's `traceparent` and `tracestate`.

use http::HeaderMap;
use penstock_core::SpanIds;

/// Longest `tracestate` that is propagated, in bytes.
const MAX_STATE_BYTES: usize = 512;

/// Trace of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceParent {
    /// Ids of the client's span.
    pub(super) ids: SpanIds,
    /// Set if the client records it.
    pub(super) sampled: bool,
    pub(super) state: String,
}

/// Reads the headers; returns `None` for missing or malformed ones.
pub(super) fn read(headers: &HeaderMap) -> Option<TraceParent> {
    let (ids, sampled) = parent(headers.get("traceparent")?.as_bytes())?;
    let states = headers.get_all("tracestate").iter().filter_map(|value| value.to_str().ok());
    let state = states.collect::<Vec<_>>().join(",");
    Some(TraceParent { ids, sampled, state: if state.len() > MAX_STATE_BYTES { String::new() } else { state } })
}

/// Returns the id of the client's trace, sampled or not.
pub(crate) fn trace_id(headers: &HeaderMap) -> Option<[u8; 16]> {
    parent(headers.get("traceparent")?.as_bytes()).map(|(ids, _)| ids.trace)
}

/// Parses `VERSION-TRACE-SPAN-FLAGS` in lower-case hexadecimal. Later versions may have more fields.
fn parent(text: &[u8]) -> Option<(SpanIds, bool)> {
    let (head, rest) = text.split_at_checked(55)?;
    let [version @ .., _] = head.first_chunk::<3>()?;
    let [version] = bytes::<1>(version)?;
    let later = version > 0 && rest.first().is_none_or(|&next| next == b'-');
    let dashed = [2, 35, 52].iter().all(|&place| head[place] == b'-');
    if version == 0xff || !dashed || !(later || rest.is_empty()) {
        return None;
    }
    let ids = SpanIds { trace: bytes(&head[3..35])?, span: bytes(&head[36..52])? };
    let [flags] = bytes::<1>(&head[53..55])?;
    (ids.trace != [0; 16] && ids.span != [0; 8]).then_some((ids, flags & 1 != 0))
}

fn bytes<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut out = [0; N];
    for (to, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *to = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    (text.len() == N * 2).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn traceparent_syntax_is_strict() {
        let (ids, sampled) = parent(GOOD.as_bytes()).unwrap();
        assert_eq!(ids.traceparent(), GOOD);
        assert!(sampled);
        assert!(!parent(GOOD.replace("-01", "-00").as_bytes()).unwrap().1);
        assert!(parent(GOOD.replacen("00-", "01-", 1).as_bytes()).is_some());
        assert!(parent(format!("{}-more", GOOD.replacen("00-", "01-", 1)).as_bytes()).is_some());
        let zeros = "0".repeat(32);
        for wrong in [
            "",
            "00",
            &GOOD[1..],
            &GOOD.to_uppercase(),
            &format!("{GOOD}-more"),
            &format!("{}more", GOOD.replacen("00-", "01-", 1)),
            &GOOD.replacen("00-", "ff-", 1),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &zeros),
            &GOOD.replace("b7ad6b7169203331", &zeros[..16]),
            &GOOD.replace('-', "_"),
        ] {
            assert_eq!(parent(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..80), tail in any::<Vec<u8>>()) {
            let _ = parent(&text);
            let _ = parent(&[GOOD.as_bytes(), &tail].concat());
        }
    }
}
