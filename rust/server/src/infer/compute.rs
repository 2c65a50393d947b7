//! Computes a decoded request through its model's queue, within its deadline.

use super::{request_headers, response_cache, shared_tensors::fetch};
use crate::{body::offload, state::Context};
use futures_util::future::Either;
use http::HeaderMap;
use penstock_core::{
    Error, InferResponse, Kind, Model, RequestContext, ResponseFuture, ResponsePlan, Result, classify,
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

/// Submits a request to its model's queue and waits for the response, at most until `deadline`.
///
/// The request is in the queue when this returns: a future that held it would move it with all futures around it.
pub(crate) fn compute<'a>(
    context: &'a Context,
    model: &'a Model,
    decoded: DecodedRequest,
    deadline: Option<Instant>,
    headers: &'a HeaderMap,
) -> impl Future<Output = Computed> + Send + 'a {
    if decoded.shared.is_some() {
        return Either::Left(Box::pin(compute_shared(context, model, decoded, deadline, headers)));
    }
    let (submission, mut plan) = submit(context, model, decoded, deadline, headers);
    Either::Right(async move {
        let mut response = submission?.wait().await?;
        rename(&mut plan, &mut response);
        if classify::is_requested(&plan) {
            Box::pin(classified(model, plan, response)).await
        } else {
            Ok((plan, response))
        }
    })
}

/// Computes a request with inputs or outputs in shared memory.
async fn compute_shared(
    context: &Context,
    model: &Model,
    decoded: DecodedRequest,
    deadline: Option<Instant>,
    headers: &HeaderMap,
) -> Computed {
    let (decoded, outputs) = fetch(context, model.spec(), decoded).await?;
    let (submission, mut plan) = submit(context, model, decoded, deadline, headers);
    let mut response = submission?.wait().await?;
    rename(&mut plan, &mut response);
    if !outputs.is_empty() {
        response = outputs.write(model.spec(), response).await?;
    }
    classified(model, plan, response).await
}

/// A request in the queue, or in the response cache.
struct Submission<'a> {
    model: &'a Model,
    response: ResponseFuture<'a>,
    deadline: Option<Instant>,
    /// Time limit in the queue.
    limit: Option<Duration>,
    _leave: InFlight<'a>,
}

fn submit<'a>(
    context: &'a Context,
    model: &'a Model,
    mut decoded: DecodedRequest,
    deadline: Option<Instant>,
    headers: &'a HeaderMap,
) -> (Result<Submission<'a>>, ResponsePlan) {
    identify(&mut decoded);
    let DecodedRequest { mut request, plan, .. } = decoded;
    if let Some(metadata) = &mut request.metadata {
        metadata.headers = request_headers::visible(headers);
    }
    request.deadline = deadline;
    request.schedule.client = request_headers::client(model, headers);
    let limit = model.spec().queueing.patience(request.schedule.priority);
    model.metrics().in_flight.inc();
    let leave = InFlight(model);
    let response = match model.cache() {
        None => model.begin(request, context.completions.as_ref()),
        Some(cache) => {
            Ok(ResponseFuture::Other(Box::pin(response_cache::infer(context, (model, cache), request, headers))))
        }
    };
    let submission = response.map(|response| Submission { model, response, deadline, limit, _leave: leave });
    (submission, plan)
}

impl Submission<'_> {
    async fn wait(mut self) -> Result<InferResponse> {
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

/// Replaces outputs by their largest elements, where classification was requested.
async fn classified(model: &Model, plan: ResponsePlan, mut response: InferResponse) -> Computed {
    if !classify::is_requested(&plan) {
        return Ok((plan, response));
    }
    let spec = Arc::clone(model.spec());
    let bytes = response.outputs.iter().map(|tensor| tensor.as_slice().len()).sum();
    let work = move || classify::apply(&spec, &plan, &mut response).map(|()| (plan, response));
    offload::run(bytes, work).await
}

/// Applies the response id that the model set.
fn rename(plan: &mut ResponsePlan, response: &mut InferResponse) {
    if let Some(id) = response.head.as_mut().and_then(|head| head.id.take()) {
        plan.id = id.into();
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
