//! Requests of `ModelStreamInfer`: read one after the other, and decoded for their models.

use super::{frames::Frames, infer::decode, status::code_of, stream_reply::Asked, stream_shared::Begun};
use crate::{
    body::Incoming,
    infer::{Call, Observed, Record, header_params, request_headers},
    state::{Context, HeldBytes},
};
use http::HeaderMap;
use penstock_core::{Error, Kind, Protocol, Result};
use penstock_wire::grpc::{Envelope, RequestMessage};

/// A request that was read: what its answers repeat, and the request for its model or why there is none.
pub(super) type Received = (Asked, Result<Begun>);

/// Reads the requests of one call.
pub(super) struct Reader<B> {
    pub(super) context: Context,
    pub(super) headers: HeaderMap,
    pub(super) frames: Frames<B>,
}

impl<B: Incoming> Reader<B> {
    /// The next request; `None` after the last.
    ///
    /// # Errors
    /// What ends the call. A server that holds as much as it may refuses only this request.
    pub(super) async fn next(&mut self) -> Result<Option<Received>> {
        let mut held = HeldBytes::none(&self.context.app);
        match self.frames.request(&mut held).await {
            Ok(None) => Ok(None),
            Ok(Some(envelope)) => {
                let asked = Asked::of(&envelope.message);
                Ok(Some((asked, request(&self.context, &self.headers, envelope, held).await)))
            }
            Err(error) => {
                self.context.app.metrics.refused.inc();
                drop(held);
                if error.kind() != Kind::Overloaded {
                    return Err(error);
                }
                self.frames.skip().await?;
                Ok(Some((Asked::of(&RequestMessage::default()), Err(error))))
            }
        }
    }
}

/// The request of a message, for its model.
async fn request(context: &Context, headers: &HeaderMap, envelope: Envelope, held: HeldBytes) -> Result<Begun> {
    let (app, message) = (&context.app, &envelope.message);
    let observed = Observed::start(app, Protocol::Grpc).traced(headers);
    let refused = |error: &Error| observed.failed(None, "", code_of(app, error), error);
    let mut guard = app.enter_sequence().inspect_err(refused)?.holding(held);
    let version = Some(&*message.model_version).filter(|version| !version.is_empty());
    let model = app.registry.find_leniently(&message.model_name, version).inspect_err(refused)?;
    let id = message.id.clone();
    let mut record =
        Record::new(app, &observed, (&model, &id), |app, error| error.map_or(0, |error| code_of(app, error)));
    let decoded = match guard.check(&model).and_then(|()| model.admit()) {
        Ok(()) => decode(&model, envelope, &mut guard).await,
        Err(error) => Err(error),
    };
    let mut decoded = decoded.inspect_err(|error| record.fail(error))?;
    if let Some(caller) = &mut decoded.request.metadata {
        caller.headers = request_headers::visible(headers);
    }
    if let Some(pattern) = &app.config.grpc_forward {
        header_params::forward(pattern, headers, &mut decoded).inspect_err(|error| record.fail(error))?;
    }
    decoded.request.schedule.client = request_headers::client(&model, headers);
    let deadline = observed.deadline_in(decoded.timeout);
    Ok(Begun { model, decoded, call: Call { record, guard, deadline } })
}
