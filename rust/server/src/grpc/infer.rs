//! `ModelInfer`, from its HTTP/2 request to its response.

use super::{dispatch::refusal, frames::Frames, respond, status};
use crate::{
    body::{Body, RequestBody, offload},
    infer::{RequestLabels, RequestTelemetry, complete, header_params, response_head, submit, timing_headers},
    state::{App, Context, RequestGuard, ResponseMemory},
};
use http::{HeaderMap, Response};
use penstock_core::{Error, InferResponse, Model, Protocol, Result, classify, footprint};
use penstock_wire::{
    DecodedRequest,
    grpc::{self as wire, Envelope},
};
use std::{sync::Arc, time::Instant};

/// Answers one call.
pub(crate) async fn infer<B: RequestBody>(context: &Context, headers: &HeaderMap, body: &mut B) -> Response<Body> {
    let telemetry = RequestTelemetry::start(context, Protocol::Grpc).traced(headers);
    let received = async {
        let mut guard = context.enter_sequence()?;
        let mut frames = Frames::new(body, headers, &context.app.config.limits)?;
        let envelope = frames.request(guard.memory()).await?;
        frames.end().await?;
        Ok((guard, envelope.ok_or_else(|| Error::invalid("the call carries no message"))?))
    };
    let mut labels = RequestLabels::default();
    let result = match received.await {
        Ok((guard, envelope)) => compute_response(context, (&telemetry, headers), envelope, guard, &mut labels).await,
        Err(error) => Err(error),
    };
    result.unwrap_or_else(|error| {
        telemetry.failed(labels.model.as_deref(), &labels.id, status::code_of(&context.app, &error), &error);
        refusal(&context.app, &error)
    })
}

/// Decodes a message for its model. Large typed contents are decoded on a blocking thread; their decoded size is
/// reserved in `guard`.
///
/// # Errors
/// Those of [`wire::decode`]; `Overloaded` when the limit on request memory is reached.
pub(super) async fn decode(
    app: &App,
    model: &Model,
    envelope: Envelope,
    guard: &mut RequestGuard,
) -> Result<DecodedRequest> {
    let limits = app.config.decode_limits();
    let (encoded, decoded) = envelope.typed_bytes();
    guard.reserve_at_least(decoded)?;
    let decoded = if encoded < offload::MIN_BYTES {
        wire::decode(model.spec(), envelope, &limits)?
    } else {
        let spec = Arc::clone(model.spec());
        offload::run(encoded, move || wire::decode(&spec, envelope, &limits)).await?
    };
    guard.reserve_at_least(footprint::of_request(model.spec(), &decoded.request))?;
    Ok(decoded)
}

/// Refuses a response head that gRPC cannot carry. An error status is an error here too, and a body must be a
/// gRPC message.
///
/// # Errors
/// The error of the status, or `Handler`.
pub(super) fn check_head(model: &Model, response: &InferResponse) -> Result<()> {
    let Some(head) = &response.head else { return Ok(()) };
    if let Some(error) = response_head::to_error(head) {
        return Err(error);
    }
    match head.body {
        None => Ok(()),
        Some(_) if head.message().is_some() => Ok(()),
        Some(_) => Err(Error::handler(format!(
            "model '{}' answered with a body, which gRPC cannot carry, expected outputs",
            model.spec().name
        ))),
    }
}

/// Computes and encodes the response to a received message.
async fn compute_response(
    context: &Context,
    (telemetry, headers): (&RequestTelemetry<'_>, &HeaderMap),
    envelope: Envelope,
    mut guard: RequestGuard,
    labels: &mut RequestLabels,
) -> Result<Response<Body>> {
    let app = &context.app;
    let message = &envelope.message;
    if app.log.observes_requests() || app.live.is_watched() {
        labels.id.clone_from(&message.id);
    }
    let version = Some(&*message.model_version).filter(|version| !version.is_empty());
    let model: &Model = labels.model.insert(context.models().find_permissively(&message.model_name, version)?);
    guard.check(model)?;
    model.check_single_response()?;
    model.admit()?;
    let mut decoded = decode(app, model, envelope, &mut guard).await?;
    if let Some(pattern) = &app.config.grpc_header_forward_pattern {
        header_params::forward(pattern, headers, &mut decoded)?;
    }
    let deadline = telemetry.deadline(headers, decoded.timeout)?;
    telemetry.decoded(&mut decoded);
    let late = |error| status::late(error, deadline);
    let (mut submission, mut plan) = submit(context, model, decoded, deadline, headers).map_err(late)?;
    let mut response = submission.wait().await.map_err(late)?;
    if response.head.is_some() || classify::is_requested(&plan) {
        (plan, response) = Box::pin(complete(model, plan, response)).await?;
    }
    telemetry.computed();
    check_head(model, &response)?;
    let start = Instant::now();
    let frame = wire::encode_framed(model.spec(), &plan, &response)?;
    model.metrics().encode.observe(start.elapsed().as_secs_f64());
    // Headers that the model set.
    let mut metadata = HeaderMap::with_capacity(4);
    if let Some(head) = &response.head {
        response_head::to_metadata(app, model, head, &mut metadata)?;
    }
    if app.config.timing_headers {
        timing_headers(&mut metadata, response.timings);
    }
    let http_response = respond::unary(respond::response_coding(context, headers), frame, metadata).await?;
    let mut held = ResponseMemory::of(app, http_response.body().bytes())?;
    telemetry.succeeded(model, (&plan.id, 0), response.timings, held.as_mut());
    Ok(http_response.map(|body| body.with_memory(held)))
}
