//! Requests of `ModelStreamInfer`: read in order, and decoded for their models.

use super::{
    frames::Frames, infer::decode, status::code_of, stream_reply::RequestEcho, stream_shared_memory::ModelRequest,
};
use crate::{
    body::RequestBody,
    infer::{RequestScope, RequestTelemetry, StreamTelemetry, header_params, request_headers},
    state::{Context, RequestMemory},
};
use http::HeaderMap;
use penstock_core::{Error, Kind, Protocol, Result};
use penstock_wire::grpc::{Envelope, RequestMessage};

/// A request: the fields that its responses repeat, and the decoded request or the error.
pub(super) type Received = (RequestEcho, Result<ModelRequest>);

/// Reader of the requests of one call.
pub(super) struct RequestReader<B> {
    pub(super) context: Context,
    pub(super) headers: HeaderMap,
    pub(super) frames: Frames<B>,
}

impl<B: RequestBody> RequestReader<B> {
    /// Reads the next request; `None` after the last.
    ///
    /// # Errors
    /// Errors that end the call. `Overloaded` refuses only this request.
    pub(super) async fn next(&mut self) -> Result<Option<Received>> {
        let mut held = RequestMemory::none(&self.context.app);
        match self.frames.request(&mut held).await {
            Ok(None) => Ok(None),
            Ok(Some(envelope)) => {
                let echo = RequestEcho::of(&envelope.message);
                Ok(Some((echo, request(&self.context, &self.headers, envelope, held).await)))
            }
            Err(error) => {
                self.context.app.metrics.refused.add(error.kind());
                drop(held);
                if error.kind() != Kind::Overloaded {
                    return Err(error);
                }
                self.frames.skip().await?;
                Ok(Some((RequestEcho::of(&RequestMessage::default()), Err(error))))
            }
        }
    }
}

/// Decodes the request of a message for its model.
async fn request(
    context: &Context,
    headers: &HeaderMap,
    envelope: Envelope,
    held: RequestMemory,
) -> Result<ModelRequest> {
    let (app, message) = (&context.app, &envelope.message);
    // Each message has its own line.
    let logged = context.for_message(held.bytes());
    let context = logged.as_ref().unwrap_or(context);
    let telemetry = RequestTelemetry::start(context, Protocol::Grpc).traced(headers);
    let refused = |error: &Error| telemetry.failed(None, "", code_of(app, error), error);
    let mut guard = context.enter_sequence().inspect_err(refused)?.with_memory(held);
    let version = Some(&*message.model_version).filter(|version| !version.is_empty());
    let model = context.models().find_permissively(&message.model_name, version).inspect_err(refused)?;
    let id = message.id.clone();
    let mut record =
        StreamTelemetry::new(app, &telemetry, (&model, &id), |app, error| error.map_or(0, |error| code_of(app, error)));
    let decoded = match guard.check(&model).and_then(|()| model.admit()) {
        Ok(()) => decode(app, &model, envelope, &mut guard).await,
        Err(error) => Err(error),
    };
    let mut decoded = decoded.inspect_err(|error| record.fail(error))?;
    if let Some(metadata) = &mut decoded.request.metadata {
        request_headers::describe_client(context, metadata, headers);
    }
    if let Some(pattern) = &app.config.grpc_header_forward_pattern {
        header_params::forward(pattern, headers, &mut decoded).inspect_err(|error| record.fail(error))?;
    }
    decoded.request.schedule.client = request_headers::client(context, &model, headers);
    let deadline = telemetry.deadline_after(decoded.timeout);
    Ok(ModelRequest { model, decoded, call: RequestScope { record, guard, deadline } })
}
