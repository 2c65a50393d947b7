//! Responses to one request, in order, within its deadline.

use super::{
    StreamTelemetry,
    compute::{EXPIRY_SLACK, identify},
};
use crate::state::{App, Context, RequestGuard};
use penstock_core::{Error, InferResponse, Kind, Model, ResponseChunk, ResponsePlan, ResponseStream, Result, classify};
use penstock_wire::DecodedRequest;
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
    time::{Duration, Instant},
};
use tokio::time::{Sleep, sleep, sleep_until, timeout};

/// A running request with any number of responses.
pub(crate) struct Responses {
    source: Source,
    deadline: Option<Pin<Box<Sleep>>>,
    /// Time at which the queue expires the request, if it still waits.
    expiry: Option<Pin<Box<Sleep>>>,
    record: StreamTelemetry,
    /// Plan for the encoder of the responses.
    pub(crate) plan: ResponsePlan,
    _guard: RequestGuard,
    _in_flight: InFlight,
}

/// Source of the responses.
enum Source {
    /// A model with one response.
    Once(Pin<Box<dyn Future<Output = Result<InferResponse>> + Send>>),
    /// A model that streams.
    Many(ResponseStream),
    Ended,
}

/// Accounting and deadline of a request.
pub(crate) struct RequestScope {
    /// Telemetry of the request.
    pub(crate) record: StreamTelemetry,
    /// Accounting of the request and its memory.
    pub(crate) guard: RequestGuard,
    /// Deadline of all responses.
    pub(crate) deadline: Option<Instant>,
}

impl Responses {
    /// Sends a request to its model.
    ///
    /// # Errors
    /// Those of the model's queue.
    pub(crate) fn start(
        context: &Context,
        model: &Arc<Model>,
        mut decoded: DecodedRequest,
        call: RequestScope,
    ) -> Result<Self> {
        call.record.decoded(&mut decoded);
        identify(&mut decoded);
        let DecodedRequest { mut request, plan, .. } = decoded;
        let RequestScope { record, guard, deadline } = call;
        request.deadline = deadline;
        let limit = model.spec().queueing.patience(request.schedule.priority);
        let in_flight = InFlight::enter(model);
        let source = if model.spec().streams {
            Source::Many(model.stream(request, context.completions.as_ref())?)
        } else {
            let (model, desk) = (Arc::clone(model), context.completions.clone());
            Source::Once(Box::pin(async move { model.infer(request, desk.as_ref()).await }))
        };
        let deadline = deadline.map(|deadline| Box::pin(sleep_until(deadline.into())));
        let expiry = limit.map(|limit| Box::pin(sleep(limit + EXPIRY_SLACK)));
        Ok(Self { source, deadline, expiry, record, plan, _guard: guard, _in_flight: in_flight })
    }

    /// Defers wake-ups for responses of a model that streams; see [`ResponseStream::set_deferred`].
    pub(crate) fn set_deferred(&mut self, deferred: bool) {
        if let Source::Many(chunks) = &mut self.source {
            chunks.set_deferred(deferred);
        }
    }

    /// Returns the server.
    pub(crate) fn app(&self) -> &Arc<App> {
        self.record.app()
    }

    /// Returns the model.
    pub(crate) fn model(&self) -> &Arc<Model> {
        self.record.model()
    }

    /// Polls the next response; `None` at the end, and after an error.
    pub(crate) fn poll_next(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Option<Result<ResponseChunk>>> {
        let next = match &mut self.source {
            Source::Ended => return Poll::Ready(None),
            Source::Once(once) => once
                .as_mut()
                .poll(cx)
                .map(|outcome| Some(outcome.map(|response| ResponseChunk { response, last: true }))),
            Source::Many(pieces) => pieces.poll_next(cx),
        };
        let mut next = match next {
            Poll::Ready(next) => next,
            Poll::Pending if self.is_expired(cx) => return self.poll_next(cx),
            Poll::Pending => {
                let Some(deadline) = &mut self.deadline else { return Poll::Pending };
                ready!(deadline.as_mut().poll(cx));
                let text = format!("model '{}' did not answer within the deadline", self.model().spec().name);
                Some(Err(Error::new(Kind::Timeout, text)))
            }
        };
        if let Some(Ok(chunk)) = &mut next
            && classify::is_requested(&self.plan)
            && let Err(error) = classify::apply(self.model().spec(), &self.plan, &mut chunk.response)
        {
            next = Some(Err(error));
        }
        match &next {
            // It is not a response.
            Some(Ok(chunk)) if chunk.response.announces_events() => {}
            Some(Ok(chunk)) => {
                self.record.responded(chunk.response.timings, chunk.last);
                if chunk.last {
                    self.source = Source::Ended;
                }
            }
            Some(Err(error)) => self.fail(error),
            None => {
                self.source = Source::Ended;
                self.record.complete();
            }
        }
        Poll::Ready(next)
    }

    /// Asks the queue, once, to expire requests over their time limit.
    fn is_expired(&mut self, cx: &mut std::task::Context<'_>) -> bool {
        let expired = self.expiry.as_mut().is_some_and(|expiry| expiry.as_mut().poll(cx).is_ready());
        if expired {
            self.expiry = None;
            self.model().queue().reject_overdue();
        }
        expired
    }

    /// Lets the deadline pass for some time more. For a model whose calls had the same deadline: it may still say so.
    pub(crate) fn postpone_deadline(&mut self, grace: Duration) {
        let until = tokio::time::Instant::now() + grace;
        if let Some(deadline) = self.deadline.as_mut().filter(|deadline| deadline.deadline() < until) {
            deadline.as_mut().reset(until);
        }
    }

    /// Awaits [`Responses::poll_next`].
    pub(crate) async fn next(&mut self) -> Option<Result<ResponseChunk>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Awaits [`Responses::poll_next`] for at most `interval`, if there is one; `None` if nothing came.
    pub(crate) async fn next_within(&mut self, interval: Option<Duration>) -> Option<Option<Result<ResponseChunk>>> {
        match interval {
            None => Some(self.next().await),
            // Boxed: without an interval the future stays small.
            Some(interval) => Box::pin(timeout(interval, self.next())).await.ok(),
        }
    }

    /// Records the status of the first response, where the model sets one.
    pub(crate) fn set_status(&mut self, status: u16) {
        self.record.set_status(status);
    }

    /// Counts bytes of a message; see [`StreamTelemetry::sent`].
    pub(crate) fn sent(&self, bytes: usize) {
        self.record.sent(bytes);
    }

    /// Ends the request successfully; further responses are dropped.
    pub(crate) fn leave(&mut self) {
        self.source = Source::Ended;
        self.record.complete();
    }

    /// Ends the request with an error, for example of a response that cannot be sent.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.source = Source::Ended;
        self.record.fail(error);
    }
}

/// Counts a request of a model until it is dropped.
struct InFlight(Arc<Model>);

impl InFlight {
    fn enter(model: &Arc<Model>) -> Self {
        model.metrics().in_flight.inc();
        Self(Arc::clone(model))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.metrics().in_flight.dec();
    }
}
