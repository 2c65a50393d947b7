//! Request headers as handlers see them, whatever the protocol.

use http::HeaderMap;

/// The headers that a handler sees: names in lower case, values that are text.
pub(crate) fn visible(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}
