//! Request headers as handlers see them, whatever the protocol.

use http::HeaderMap;
use penstock_core::Headers;

/// The headers that a handler sees: names in lower case, values that are text.
pub(crate) fn visible(headers: &HeaderMap) -> Headers {
    let mut seen = Headers::default();
    seen.reserve(headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum());
    let texts = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    texts.for_each(|(name, value)| seen.push(name, value));
    seen
}
