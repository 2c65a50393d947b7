//! Request headers as handlers see them, whatever the protocol.

use http::HeaderMap;
use penstock_core::{Client, Headers, Model};

/// The headers that a handler sees: names in lower case, values that are text.
pub(crate) fn visible(headers: &HeaderMap) -> Headers {
    let mut labels = Headers::default();
    labels.reserve(headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum());
    let texts = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    texts.for_each(|(name, value)| labels.push(name, value));
    labels
}

/// The client that a request names; all that name none are one.
pub(crate) fn client(model: &Model, headers: &HeaderMap) -> Client {
    let Some(fairness) = &model.spec().queueing.fair else { return Client::default() };
    headers.get(&*fairness.header).map_or_else(Client::default, |value| Client::named(value.as_bytes()))
}
