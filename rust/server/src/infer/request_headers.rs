//! Request headers and clients for handlers and fairness, in all protocols.

use crate::state::Context;
use http::HeaderMap;
use penstock_core::{Client, FairBy, Headers, Model, RequestMetadata};
use std::sync::Arc;

/// Returns the headers for a handler: names in lower case, values that are text.
fn visible(headers: &HeaderMap) -> Headers {
    let mut visible = Headers::default();
    visible.reserve(headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum());
    let texts = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    texts.for_each(|(name, value)| visible.push(name, value));
    visible
}

/// Fills in what a handler may read of the client: its headers and identity.
pub(crate) fn describe_client(context: &Context, metadata: &mut RequestMetadata, headers: &HeaderMap) {
    metadata.headers = visible(headers);
    metadata.client = Some(Arc::clone(&context.client));
}

/// Returns the client for fairness. Requests without the header share one client.
pub(crate) fn client(context: &Context, model: &Model, headers: &HeaderMap) -> Client {
    match model.spec().queueing.fair.as_ref().map(|fairness| &fairness.by) {
        None => Client::default(),
        Some(FairBy::Header(name)) => {
            headers.get(&**name).map_or_else(Client::default, |value| Client::named(value.as_bytes()))
        }
        Some(FairBy::Client) => Client::named(context.client.name().as_bytes()),
    }
}
