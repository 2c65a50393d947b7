//! `ModelInfer`, from its HTTP/2 request to its answer.

use super::{dispatch::refusal, frames::Frames, respond, status};
use crate::{
    body::{Body, RequestBody, offload},
    infer::{RequestLabels, RequestTelemetry, compute, header_params, response_head, timing_headers},
    state::{Context, RequestGuard, ResponseMemory},
};
use http::{HeaderMap, Request, Response};
use penstock_core::{Error, InferResponse, Model, Protocol, Result, footprint};
use penstock_wire::{
    DecodedRequest, Limits,
    grpc::{self as wire, Envelope},
};
use std::{sync::Arc, time::Instant};

/// Responses one call.
pub(super) async fn infer<B: RequestBody>(context: &Context, request: Request<B>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    let telemetry = RequestTelemetry::start(&context.app, Protocol::Grpc).traced(headers);
    let received = async {
        let mut guard = context.app.enter_sequence()?;
        let mut frames = Frames::new(body, headers, &context.app.config.limits)?;
        let envelope = frames.request(guard.memory()).await?;
        frames.end().await?;
        Ok((guard, envelope.ok_or_else(|| Error::invalid("the call carries no message"))?))
    };
    let mut labels = RequestLabels::default();
    let answer = match received.await {
        Ok((guard, envelope)) => answer(context, (&telemetry, headers), envelope, guard, &mut labels).await,
        Err(error) => Err(error),
    };
    answer.unwrap_or_else(|error| {
        telemetry.failed(labels.model.as_deref(), &labels.id, status::code_of(&context.app, &error), &error);
        refusal(&context.app, &error)
    })
}

/// Whether shared memory is on is for [`compute`] to say.
const LIMITS: Limits = Limits { shared_memory: true, ..Limits::DEFAULT };

/// Decodes a message for its model. Large typed contents are decoded on a thread of their own; what they grow by is
/// counted in `guard`.
///
/// # Errors
/// As [`wire::decode`]; `Overloaded` when the server's bodies hold as much as they may.
pub(super) async fn decode(model: &Model, envelope: Envelope, guard: &mut RequestGuard) -> Result<DecodedRequest> {
    let (encoded, decoded) = envelope.typed_bytes();
    guard.reserve_at_least(decoded)?;
    let decoded = if encoded < offload::MIN_BYTES {
        wire::decode(model.spec(), envelope, &LIMITS)?
    } else {
        let spec = Arc::clone(model.spec());
        offload::run(encoded, move || wire::decode(&spec, envelope, &LIMITS)).await?
    };
    guard.reserve_at_least(footprint::of_request(model.spec(), &decoded.request))?;
    Ok(decoded)
}

/// Refuses what a model tells and gRPC cannot carry: a status of an error is one here too, and of other bodies there is a
/// place only for messages of gRPC.
///
/// # Errors
/// The error that is told, or `Handler`.
pub(super) fn check_told(model: &Model, response: &InferResponse) -> Result<()> {
    let Some(told) = &response.head else { return Ok(()) };
    if let Some(error) = response_head::to_error(told) {
        return Err(error);
    }
    match told.body {
        None => Ok(()),
        Some(_) if told.message().is_some() => Ok(()),
        Some(_) => Err(Error::handler(format!(
            "model '{}' answered with a body, which only HTTP has a place for, expected outputs",
            model.spec().name
        ))),
    }
}

/// Computes and encodes the answer to a received message.
async fn answer(
    context: &Context,
    (telemetry, headers): (&RequestTelemetry<'_>, &HeaderMap),
    envelope: Envelope,
    mut guard: RequestGuard,
    labels: &mut RequestLabels,
) -> Result<Response<Body>> {
    let app = &context.app;
    let message = &envelope.message;
    if app.log.logs_requests() {
        labels.id.clone_from(&message.id);
    }
    let version = Some(&*message.model_version).filter(|version| !version.is_empty());
    let model: &Model = labels.model.insert(app.registry.find_leniently(&message.model_name, version)?);
    guard.check(model)?;
    model.check_single_response()?;
    model.admit()?;
    let mut decoded = decode(model, envelope, &mut guard).await?;
    if let Some(pattern) = &app.config.grpc_forward {
        header_params::forward(pattern, headers, &mut decoded)?;
    }
    let deadline = telemetry.deadline(headers, decoded.timeout)?;
    telemetry.decoded(&mut decoded);
    let computed = compute(context, model, decoded, deadline, headers).await;
    let (plan, response) = computed.map_err(|error| status::late(error, deadline))?;
    telemetry.computed();
    check_told(model, &response)?;
    let start = Instant::now();
    let frame = wire::encode_framed(model.spec(), &plan, &response)?;
    model.metrics().encode.observe(start.elapsed().as_secs_f64());
    // The headers that its model tells.
    let mut metadata = HeaderMap::with_capacity(4);
    if let Some(told) = &response.head {
        response_head::to_metadata(app, model, told, &mut metadata)?;
    }
    if app.config.timing_headers {
        timing_headers(&mut metadata, response.timings);
    }
    let answer = respond::unary(respond::answer_coding(context, headers), frame, metadata).await?;
    let held = ResponseMemory::of(app, answer.body().bytes())?;
    telemetry.succeeded(model, &plan.id, 0, response.timings);
    Ok(answer.map(|body| body.with_memory(held)))
}
