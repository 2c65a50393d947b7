//! `ModelInfer`, from its HTTP/2 request to its answer.

use super::{status, unary};
use crate::{
    app::{App, RequestGuard},
    body::Body,
    compute::compute,
    front::{Context, Incoming},
    observed::{Observed, timing_headers},
    rest,
};
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE};
use penstock_core::{AnswerPlan, Chunks, Error, InferResponse, Model, Protocol, Result};
use penstock_wire::{
    Limits,
    grpc::{self as wire, Envelope},
};
use std::{sync::Arc, time::Instant};

/// Answers one call whose message is not compressed.
pub(crate) async fn infer<B: Incoming>(context: &Context, request: Request<B>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let observed = Observed::start(&context.app, Protocol::Grpc).traced(&head.headers);
    let received = async {
        let mut guard = context.app.enter_sequence()?;
        let envelope = unary::receive(body, &context.app.config.limits, &mut guard).await?;
        Ok((guard, envelope))
    };
    let result = match received.await {
        Ok((guard, envelope)) => call(context, &observed, &head.headers, envelope, guard).await,
        Err(error) => {
            observed.failed(None, "", status::code_of(&context.app, &error), &error);
            Err(error)
        }
    };
    let result = result.and_then(|answer| Ok((answer.encoded()?, answer.metadata(&context.app)?, answer)));
    let (mut response, headers) = match result {
        Ok((chunks, mut headers, answer)) => {
            if context.app.config.timing_headers {
                timing_headers(&mut headers, answer.response.timings);
            }
            (Response::new(Body::with_trailers(chunks, Some(status::ok_trailers()))), headers)
        }
        Err(error) => (Response::new(Body::empty()), status::error_headers(&context.app, &error)),
    };
    *response.headers_mut() = headers;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// Whether shared memory is on is for [`compute`] to say.
pub(super) const LIMITS: Limits = Limits { shared_memory: true, ..Limits::DEFAULT };

/// A computed answer with what its encoder needs.
pub(crate) struct Answer {
    pub(crate) model: Arc<Model>,
    pub(crate) plan: AnswerPlan,
    pub(crate) response: InferResponse,
}

impl Answer {
    /// The headers that its model tells.
    pub(super) fn metadata(&self, app: &App) -> Result<HeaderMap> {
        let mut headers = HeaderMap::with_capacity(4);
        if let Some(told) = &self.response.told {
            rest::told_metadata(app, &self.model, told, &mut headers)?;
        }
        Ok(headers)
    }

    fn encoded(&self) -> Result<Chunks> {
        let start = Instant::now();
        let chunks = wire::encode_framed(self.model.spec(), &self.plan, &self.response)?;
        self.model.metrics().encode.observe(start.elapsed().as_secs_f64());
        Ok(chunks)
    }
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
pub(crate) async fn call(
    context: &Context,
    observed: &Observed<'_>,
    headers: &HeaderMap,
    envelope: Envelope,
    guard: RequestGuard,
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
        let mut decoded = wire::decode(model.spec(), envelope, &LIMITS)?;
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
    let result = result.await;
    drop(guard);
    match result {
        Ok((plan, response)) => {
            observed.served(&model, &plan.id, 0, response.timings);
            Ok(Answer { model, plan, response })
        }
        Err(error) => {
            observed.failed(Some(&model), &id, status::code_of(&context.app, &error), &error);
            Err(error)
        }
    }
}
