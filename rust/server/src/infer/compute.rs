//! Computes a decoded request through its model's queue, within its deadline.

use super::{request_headers, response_cache, shared_tensors::fetch};
use crate::{body::offload, state::Context};
use http::HeaderMap;
use penstock_core::{
    Error, InferRequest, InferResponse, Kind, Model, RequestContext, ResponseFuture, ResponsePlan, Result, classify,
    request_contexts_enabled,
};
use penstock_wire::DecodedRequest;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Delay after a queue's time limit before the queue is asked to expire requests.
pub(crate) const EXPIRY_SLACK: Duration = Duration::from_millis(1);

/// Outcome of an inference: the plan for the encoder, and the outputs.
type Computed = Result<(ResponsePlan, InferResponse)>;

/// Submits a request to its model's queue and waits for the response, at most until `deadline`. Applies classification
/// and the response's id.
pub(crate) async fn compute(
    context: &Context,
    model: &Model,
    decoded: DecodedRequest,
    deadline: Option<Instant>,
    headers: &HeaderMap,
) -> Computed {
    let (mut submission, plan) = submit(context, model, decoded, deadline, headers)?;
    let response = submission.wait().await?;
    complete(model, plan, response).await
}

/// Applies the response's id and the requested classification.
pub(crate) async fn complete(model: &Model, mut plan: ResponsePlan, mut response: InferResponse) -> Computed {
    if let Some(id) = response.head.as_mut().and_then(|head| head.id.take()) {
        plan.id = id.into();
    }
    if !classify::is_requested(&plan) {
        return Ok((plan, response));
    }
    let spec = Arc::clone(model.spec());
    let bytes = response.outputs.iter().map(|tensor| tensor.as_slice().len()).sum();
    let work = move || classify::apply(&spec, &plan, &mut response).map(|()| (plan, response));
    offload::run(bytes, work).await
}

/// A request that is computed: in the queue, in the response cache, or with inputs to read from shared memory.
pub(crate) struct Submission<'a> {
    model: &'a Model,
    response: ResponseFuture<'a>,
    deadline: Option<Instant>,
    /// Time limit in the queue.
    limit: Option<Duration>,
    _leave: Option<InFlight<'a>>,
}

/// Submits a request to its model's queue, with the plan for its response.
///
/// Not an `async fn`: a future that held the request would move it with all futures around it.
pub(crate) fn submit<'a>(
    context: &'a Context,
    model: &'a Model,
    mut decoded: DecodedRequest,
    deadline: Option<Instant>,
    headers: &'a HeaderMap,
) -> Result<(Submission<'a>, ResponsePlan)> {
    identify(&mut decoded);
    if decoded.shared.is_some() {
        let plan = std::mem::take(&mut decoded.plan);
        let response = ResponseFuture::Other(Box::pin(compute_shared(context, model, decoded, deadline, headers)));
        return Ok((Submission { model, response, deadline: None, limit: None, _leave: None }, plan));
    }
    let DecodedRequest { request, plan, .. } = decoded;
    Ok((enqueue(context, model, request, deadline, headers)?, plan))
}

/// Computes a request with inputs or outputs in shared memory.
async fn compute_shared(
    context: &Context,
    model: &Model,
    decoded: DecodedRequest,
    deadline: Option<Instant>,
    headers: &HeaderMap,
) -> Result<InferResponse> {
    let (decoded, outputs) = fetch(context, model.spec(), decoded).await?;
    let response = enqueue(context, model, decoded.request, deadline, headers)?.wait().await?;
    if outputs.is_empty() { Ok(response) } else { outputs.write(model.spec(), response).await }
}

fn enqueue<'a>(
    context: &'a Context,
    model: &'a Model,
    mut request: InferRequest,
    deadline: Option<Instant>,
    headers: &'a HeaderMap,
) -> Result<Submission<'a>> {
    if let Some(metadata) = &mut request.metadata {
        request_headers::describe_client(context, metadata, headers);
    }
    request.deadline = deadline;
    request.schedule.client = request_headers::client(context, model, headers);
    let limit = model.spec().queueing.patience(request.schedule.priority);
    if let Some(log) = &context.request_log {
        log.submitted(model);
    }
    model.metrics().in_flight.inc();
    let leave = InFlight(model);
    let response = match model.cache() {
        None => model.begin(request, context.completions.as_ref())?,
        Some(cache) => {
            ResponseFuture::Other(Box::pin(response_cache::infer(context, (model, cache), request, headers)))
        }
    };
    Ok(Submission { model, response, deadline, limit, _leave: Some(leave) })
}

impl Submission<'_> {
    /// Waits for the response, at most until the deadline.
    pub(crate) async fn wait(&mut self) -> Result<InferResponse> {
        match (self.deadline, self.limit) {
            (None, None) => (&mut self.response).await,
            _ => Box::pin(self.wait_until_deadline()).await,
        }
    }

    async fn wait_until_deadline(&mut self) -> Result<InferResponse> {
        let Self { model, ref mut response, deadline, limit, .. } = *self;
        let response = within_queue(model, limit, response);
        let Some(deadline) = deadline else { return response.await };
        tokio::time::timeout_at(deadline.into(), response).await.unwrap_or_else(|_| {
            let text = format!("model '{}' did not answer within the deadline", model.spec().name);
            Err(Error::new(Kind::Timeout, text))
        })
    }
}

/// Adds the request's context, where logs or metrics want it.
pub(crate) fn identify(decoded: &mut DecodedRequest) {
    if request_contexts_enabled() && decoded.request.context.is_none() {
        decoded.request.context = Some(Box::new(RequestContext { id: decoded.plan.id.clone(), trace: None }));
    }
}

/// Waits for a response; asks the queue to expire the request when its time limit has passed.
async fn within_queue(
    model: &Model,
    limit: Option<Duration>,
    response: &mut ResponseFuture<'_>,
) -> Result<InferResponse> {
    let Some(limit) = limit else { return response.await };
    match tokio::time::timeout(limit + EXPIRY_SLACK, &mut *response).await {
        Ok(outcome) => outcome,
        Err(_) => {
            model.queue().reject_overdue();
            response.await
        }
    }
}

/// Decrements the in-flight count, however the request ends.
struct InFlight<'a>(&'a Model);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.metrics().in_flight.dec();
    }
}
