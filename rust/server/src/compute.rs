//! From a decoded request to its answer, within its deadline.

use crate::{
    cached, fair,
    front::Context,
    headers::visible,
    offload,
    shared_memory::{SharedOutputs, fetch},
};
use http::HeaderMap;
use penstock_core::{
    AnswerPlan, Error, InferRequest, InferResponse, Kind, Model, Origin, Result, are_origins_wanted, classify,
};
use penstock_wire::Decoded;
use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::{Duration, Instant},
};

/// How much later than a queue's limit it is looked whether a request still waits.
pub(crate) const LATE: Duration = Duration::from_millis(1);

/// Sends a request through its model's queue and waits for the answer, at most until `deadline`.
pub(crate) async fn compute(
    context: &Context,
    model: &Model,
    mut decoded: Decoded,
    deadline: Option<Instant>,
    headers: &HeaderMap,
) -> Result<(AnswerPlan, InferResponse)> {
    if let Some(caller) = &mut decoded.request.caller {
        caller.headers = visible(headers);
    }
    let mut outputs = SharedOutputs::default();
    if decoded.shared.is_some() {
        (decoded, outputs) = Box::pin(fetch(context, model.spec(), decoded)).await?;
    }
    identify(&mut decoded);
    decoded.request.deadline = deadline;
    decoded.request.schedule.client = fair::client(model, headers);
    model.metrics().in_flight.inc();
    let _leave = InFlight(model);
    let limit = model.spec().queueing.patience(decoded.request.schedule.priority);
    // Pinned once, and lent to what limits it: a future that is moved in is there twice, in all that are around it.
    let answer = pin!(infer(context, model, decoded.request, headers));
    let answer = within_queue(model, limit, answer);
    let response = match deadline {
        None => answer.await?,
        Some(deadline) => tokio::time::timeout_at(deadline.into(), answer).await.map_err(|_| {
            Error::new(Kind::Timeout, format!("model '{}' did not answer within the deadline", model.spec().name))
        })??,
    };
    let response = if outputs.is_empty() { response } else { Box::pin(outputs.write(model.spec(), response)).await? };
    finish(model, decoded.plan, response).await
}

/// Computes an answer, or finds it in the model's cache.
async fn infer(context: &Context, model: &Model, request: InferRequest, headers: &HeaderMap) -> Result<InferResponse> {
    match model.cache() {
        None => model.infer(request, context.desk.as_ref()).await,
        // Apart, so that the others' future is as small as it was.
        Some(cache) => Box::pin(cached::infer(context, (model, cache), request, headers)).await,
    }
}

/// Has a request say who it is, if anybody wants to know.
pub(crate) fn identify(decoded: &mut Decoded) {
    if are_origins_wanted() && decoded.request.origin.is_none() {
        decoded.request.origin = Some(Box::new(Origin { id: decoded.plan.id.clone(), trace: None }));
    }
}

/// Makes of a computed answer what was asked for.
async fn finish(model: &Model, plan: AnswerPlan, mut response: InferResponse) -> Result<(AnswerPlan, InferResponse)> {
    if !classify::is_asked(&plan) {
        return Ok((plan, response));
    }
    let spec = Arc::clone(model.spec());
    let bytes = response.outputs.iter().map(|tensor| tensor.as_slice().len()).sum();
    offload::run(bytes, move || {
        classify::apply(&spec, &plan, &mut response)?;
        Ok((plan, response))
    })
    .await
}

/// Waits for an answer; has the queue give the request up when it has waited there for as long as it may.
async fn within_queue<T>(model: &Model, limit: Option<Duration>, mut answer: Pin<&mut impl Future<Output = T>>) -> T {
    let Some(limit) = limit else { return answer.await };
    // The request arrives when it is first polled, a little after the clock is set.
    match tokio::time::timeout(limit + LATE, answer.as_mut()).await {
        Ok(answer) => answer,
        Err(_) => {
            model.queue().expire();
            answer.await
        }
    }
}

/// Counts a request out again however it ends: answered, failed, or left by its caller.
struct InFlight<'a>(&'a Model);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.metrics().in_flight.dec();
    }
}
