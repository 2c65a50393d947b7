//! Entry of every inference request.

use super::{cloud_events, infer::Inference, protocols};
use crate::{
    body::{Body, RequestBody},
    rest::operation::Operation,
    state::Context,
};
use http::Response;

/// Answers an inference request, as a CloudEvent if it is one and the setting is on.
pub(crate) async fn respond<B: RequestBody>(
    context: &Context,
    operation: Operation,
    request: Inference<'_, B>,
) -> Response<Body> {
    let settings = context.app.config.cloud_events.as_ref();
    let event = settings.and_then(|settings| Some((settings, cloud_events::Mode::of(operation, request.headers)?)));
    match event {
        None => protocols::respond(context, operation, request).await,
        // Boxed: its future would move with every inference request.
        Some(event) => Box::pin(cloud_events::respond(context, operation, request, event)).await,
    }
}
