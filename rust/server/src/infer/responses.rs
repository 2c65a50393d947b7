//! The answers to one request, one after the other, within its deadline.

use super::{
    compute::{EXPIRY_SLACK, identify},
    telemetry::StreamTelemetry,
};
use crate::state::{App, Context, RequestGuard};
use penstock_core::{Error, InferResponse, Kind, Model, ResponseChunk, ResponsePlan, ResponseStream, Result, classify};
use penstock_wire::DecodedRequest;
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
    time::Instant,
};
use tokio::time::{Sleep, sleep, sleep_until};

/// A request under way, with any number of answers.
pub(crate) struct Responses {
    source: Source,
    deadline: Option<Pin<Box<Sleep>>>,
    /// When the model's queue gives it up, if it still waits there.
    expiry: Option<Pin<Box<Sleep>>>,
    record: StreamTelemetry,
    /// What the answers' encoder needs.
    pub(crate) plan: ResponsePlan,
    _guard: RequestGuard,
    _in_flight: InFlight,
}

/// Where answers come from.
enum Source {
    /// A model that answers once.
    Once(Pin<Box<dyn Future<Output = Result<InferResponse>> + Send>>),
    /// A model that streams.
    Many(ResponseStream),
    Ended,
}

/// What a request brings beside its tensors.
pub(crate) struct RequestScope {
    /// Who is told of its outcome.
    pub(crate) record: StreamTelemetry,
    /// Counts it, and the bytes of its body.
    pub(crate) guard: RequestGuard,
    /// When its answers are worth nothing any more.
    pub(crate) deadline: Option<Instant>,
}

impl Responses {
    /// Sends a request to its model.
    ///
    /// # Errors
    /// What the model's queue refuses.
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

    /// The server that it is of.
    pub(crate) fn app(&self) -> &Arc<App> {
        self.record.app()
    }

    /// The model that answers.
    pub(crate) fn model(&self) -> &Arc<Model> {
        self.record.model()
    }

    /// The next answer; `None` at the end. After an error there is none.
    pub(crate) fn poll_next(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Option<Result<ResponseChunk>>> {
        let next = match &mut self.source {
            Source::Ended => return Poll::Ready(None),
            Source::Once(answer) => answer
                .as_mut()
                .poll(cx)
                .map(|answer| Some(answer.map(|response| ResponseChunk { response, last: true }))),
            Source::Many(pieces) => pieces.poll_next(cx),
        };
        let next = match next {
            Poll::Ready(next) => next,
            Poll::Pending if self.is_expired(cx) => return self.poll_next(cx),
            Poll::Pending => {
                let Some(deadline) = &mut self.deadline else { return Poll::Pending };
                ready!(deadline.as_mut().poll(cx));
                let text = format!("model '{}' did not answer within the deadline", self.model().spec().name);
                Some(Err(Error::new(Kind::Timeout, text)))
            }
        };
        let next = next.map(|next| next.and_then(|piece| self.classified(piece)));
        match &next {
            Some(Ok(piece)) => {
                self.record.answered(piece.response.timings, piece.last);
                if piece.last {
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

    /// Has the queue give up what has waited there for too long, once.
    fn is_expired(&mut self, cx: &mut std::task::Context<'_>) -> bool {
        let expired = self.expiry.as_mut().is_some_and(|expiry| expiry.as_mut().poll(cx).is_ready());
        if expired {
            self.expiry = None;
            self.model().queue().reject_overdue();
        }
        expired
    }

    fn classified(&self, mut piece: ResponseChunk) -> Result<ResponseChunk> {
        if classify::is_requested(&self.plan) {
            classify::apply(self.model().spec(), &self.plan, &mut piece.response)?;
        }
        Ok(piece)
    }

    /// As [`Responses::poll_next`].
    pub(crate) async fn next(&mut self) -> Option<Result<ResponseChunk>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The status that goes out with the first answer, where the model tells one.
    pub(crate) fn set_status(&mut self, status: u16) {
        self.record.set_status(status);
    }

    /// Ends it here: its caller wants no more.
    pub(crate) fn leave(&mut self) {
        self.source = Source::Ended;
        self.record.complete();
    }

    /// Ends it early, with an error that its caller is told: one of its answers cannot be sent, say.
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
