//! `ModelInfer`, from its HTTP/2 request to its answer.

use super::{status, unary};
use crate::{
    app::RequestGuard,
    body::Body,
    compute::compute,
    front::{Context, Incoming},
    observed::{Observed, timing_headers},
};
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE};
use penstock_core::{AnswerPlan, Chunks, InferResponse, Model, Protocol, Result};
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
    let result = result.and_then(|answer| answer.encoded().map(|chunks| (answer, chunks)));
    let (mut response, headers) = match result {
        Ok((answer, chunks)) => {
            let mut headers = HeaderMap::with_capacity(4);
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
    fn encoded(&self) -> Result<Chunks> {
        let start = Instant::now();
        let chunks = wire::encode_framed(self.model.spec(), &self.plan, &self.response)?;
        self.model.metrics().encode.observe(start.elapsed().as_secs_f64());
        Ok(chunks)
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
    let found = context.app.registry.find(&message.model_name, version);
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
        computed.inspect(|_| observed.computed()).map_err(|error| status::late(error, deadline))
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
