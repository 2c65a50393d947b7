//! `ModelInfer`, from its HTTP/2 request to its answer.

use super::{frames::Frames, refusal, respond, status};
use crate::{
    app::RequestGuard,
    body::Body,
    compute::compute,
    front::{Context, Incoming},
    observed::{Observed, timing_headers},
    offload, rest,
};
use http::{HeaderMap, Request, Response};
use penstock_core::{AnswerPlan, Error, InferResponse, Model, Protocol, Result, footprint};
use penstock_wire::{
    Decoded, Limits,
    grpc::{self as wire, Envelope},
};
use std::{sync::Arc, time::Instant};

/// Answers one call.
pub(super) async fn infer<B: Incoming>(context: &Context, request: Request<B>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    let observed = Observed::start(&context.app, Protocol::Grpc).traced(headers);
    let received = async {
        let mut guard = context.app.enter_sequence()?;
        let mut frames = Frames::new(body, headers, &context.app.config.limits)?;
        let envelope = frames.request(guard.held()).await?;
        frames.end().await?;
        Ok((guard, envelope.ok_or_else(|| Error::invalid("the call carries no message"))?))
    };
    let answer = match received.await {
        Ok((guard, envelope)) => call(context, &observed, headers, envelope, guard).await,
        Err(error) => {
            observed.failed(None, "", status::code_of(&context.app, &error), &error);
            Err(error)
        }
    };
    match answer {
        Ok(answer) => answer.response(context, headers).await.unwrap_or_else(|error| refusal(&context.app, &error)),
        Err(error) => refusal(&context.app, &error),
    }
}

/// Whether shared memory is on is for [`compute`] to say.
const LIMITS: Limits = Limits { shared_memory: true, ..Limits::DEFAULT };

/// A computed answer with what its encoder needs.
struct Answer {
    model: Arc<Model>,
    plan: AnswerPlan,
    response: InferResponse,
    guard: RequestGuard,
}

impl Answer {
    async fn response(mut self, context: &Context, asked: &HeaderMap) -> Result<Response<Body>> {
        let start = Instant::now();
        let frame = wire::encode_framed(self.model.spec(), &self.plan, &self.response)?;
        self.model.metrics().encode.observe(start.elapsed().as_secs_f64());
        // The headers that its model tells.
        let mut headers = HeaderMap::with_capacity(4);
        if let Some(told) = &self.response.told {
            rest::told_metadata(&context.app, &self.model, told, &mut headers)?;
        }
        if context.app.config.timing_headers {
            timing_headers(&mut headers, self.response.timings);
        }
        let answer = respond::unary(respond::answer_coding(context, asked), frame, headers).await?;
        self.guard.hold_answer(answer.body())?;
        Ok(answer.map(|body| self.guard.answered(body)))
    }
}

/// Decodes a message for its model. Large typed contents are decoded on a thread of their own; what they grow by is
/// counted in `guard`.
///
/// # Errors
/// As [`wire::decode`]; `Overloaded` when the server's bodies hold as much as they may.
pub(super) async fn decode(model: &Model, envelope: Envelope, guard: &mut RequestGuard) -> Result<Decoded> {
    let (encoded, decoded) = envelope.typed_bytes();
    if decoded > encoded {
        guard.reserve(decoded - encoded)?;
    }
    let decoded = if encoded < offload::FROM_BYTES {
        wire::decode(model.spec(), envelope, &LIMITS)?
    } else {
        let spec = Arc::clone(model.spec());
        offload::run(encoded, move || wire::decode(&spec, envelope, &LIMITS)).await?
    };
    guard.hold_at_least(footprint::of_request(model.spec(), &decoded.request))?;
    Ok(decoded)
}

/// Refuses what a model tells and gRPC cannot carry: a status of an error is one here too, and of other bodies there is a
/// place only for messages of gRPC.
///
/// # Errors
/// The error that is told, or `Handler`.
pub(super) fn check_told(model: &Model, response: &InferResponse) -> Result<()> {
    let Some(told) = &response.told else { return Ok(()) };
    if let Some(error) = rest::told_error(told) {
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

/// Computes the answer to a received message; the metrics and the log know of it afterwards.
async fn call(
    context: &Context,
    observed: &Observed<'_>,
    headers: &HeaderMap,
    envelope: Envelope,
    mut guard: RequestGuard,
) -> Result<Answer> {
    let id = if context.app.log.logs_requests() { envelope.message.id.clone() } else { String::new() };
    let message = &envelope.message;
    let version = Some(&*message.model_version).filter(|version| !version.is_empty());
    let found = context.app.registry.find_leniently(&message.model_name, version);
    let model = found.inspect_err(|error| observed.failed(None, &id, status::code_of(&context.app, error), error))?;
    let result = async {
        guard.check(&model)?;
        model.check_answers_once()?;
        model.admit()?;
        let mut decoded = decode(&model, envelope, &mut guard).await?;
        if let Some(pattern) = &context.app.config.grpc_forward {
            pattern.forward(headers, &mut decoded)?;
        }
        let deadline = observed.deadline(headers, decoded.timeout)?;
        observed.received(&mut decoded);
        let computed = compute(context, &model, decoded, deadline, headers).await;
        let (plan, response) = computed.map_err(|error| status::late(error, deadline))?;
        observed.computed();
        check_told(&model, &response)?;
        Ok((plan, response))
    };
    match result.await {
        Ok((plan, response)) => {
            observed.served(&model, &plan.id, 0, response.timings);
            Ok(Answer { model, plan, response, guard })
        }
        Err(error) => {
            observed.failed(Some(&model), &id, status::code_of(&context.app, &error), &error);
            Err(error)
        }
    }
}
