//! Who a request is counted to, where a model is fair to its clients.

use http::HeaderMap;
use penstock_core::{Client, Model};

/// The client that a request names; all that name none are one.
pub(crate) fn client(model: &Model, headers: &HeaderMap) -> Client {
    let Some(fairness) = &model.spec().queueing.fair else { return Client::default() };
    headers.get(&*fairness.header).map_or_else(Client::default, |value| Client::named(value.as_bytes()))
}
