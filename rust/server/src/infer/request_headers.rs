//! Request headers for handlers and fairness, in all protocols.

use http::HeaderMap;
use penstock_core::{Client, Headers, Model};

/// Returns the headers for a handler: names in lower case, values that are text.
pub(crate) fn visible(headers: &HeaderMap) -> Headers {
    let mut visible = Headers::default();
    visible.reserve(headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum());
    let texts = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    texts.for_each(|(name, value)| visible.push(name, value));
    visible
}

/// Returns the client for fairness. Requests without the header share one client.
pub(crate) fn client(model: &Model, headers: &HeaderMap) -> Client {
    let Some(fairness) = &model.spec().queueing.fair else { return Client::default() };
    headers.get(&*fairness.header).map_or_else(Client::default, |value| Client::named(value.as_bytes()))
}
