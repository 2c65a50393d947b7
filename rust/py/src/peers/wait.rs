//! Waiting for another model's answer: until it comes, the deadline passes, or nobody wants it any more.

use super::link::Audience;
use penstock_core::{Error, InferRequest, InferResponse, Kind, Model, Protocol, Result};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// How often a thread that waits looks whether its own callers have left.
const LOOK: Duration = Duration::from_millis(20);

/// How much later than a queue's limit it is looked whether a request still waits.
const LATE: Duration = Duration::from_millis(1);

/// An answer that has not come yet.
pub(super) struct Pending {
    answer: Pin<Box<dyn Future<Output = Result<InferResponse>> + Send>>,
    model: Arc<Model>,
    audience: Audience,
    began: Instant,
    /// When the model's queue is to give it up, if it still waits there.
    expires: Option<Instant>,
}

impl Pending {
    /// Nothing is sent before it is polled.
    pub(super) fn new(model: Arc<Model>, request: InferRequest, audience: Audience) -> Self {
        let began = Instant::now();
        let limit = model.spec().queueing.patience(request.schedule.priority);
        let expires = limit.and_then(|limit| began.checked_add(limit + LATE));
        let answer = Box::pin(answer(Arc::clone(&model), request));
        Self { answer, model, audience, began, expires }
    }

    /// The answer, or the error of who gives up. Counted like that of any caller.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<InferResponse>> {
        let polled = self.look(cx);
        if let Poll::Ready(answer) = &polled {
            let metrics = self.model.metrics();
            match answer {
                Ok(_) => metrics.served(Protocol::InProcess),
                Err(error) => {
                    metrics.failed(Protocol::InProcess, error.kind());
                    metrics.statistics.failed(self.began.elapsed());
                }
            }
        }
        polled
    }

    fn look(&mut self, cx: &mut Context<'_>) -> Poll<Result<InferResponse>> {
        if self.expires.is_some_and(|expires| expires <= Instant::now()) {
            self.expires = None;
            self.model.queue().expire();
        }
        if let Poll::Ready(answer) = self.answer.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        let name = &self.model.spec().name;
        if self.audience.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let text = format!("model '{name}' did not answer within the deadline");
            return Poll::Ready(Err(Error::new(Kind::Timeout, text)));
        }
        if self.audience.is_gone() {
            let text = format!("nobody waits for the answer of model '{name}' any more");
            return Poll::Ready(Err(Error::new(Kind::Cancelled, text)));
        }
        Poll::Pending
    }

    /// In how long it is to be polled again, whatever happens.
    pub(super) fn patience(&self) -> Option<Duration> {
        let next = self.audience.deadline.into_iter().chain(self.expires).min();
        next.map(|next| next.saturating_duration_since(Instant::now()))
    }
}

async fn answer(model: Arc<Model>, request: InferRequest) -> Result<InferResponse> {
    model.admit()?;
    model.metrics().in_flight.inc();
    let _leave = InFlight(Arc::clone(&model));
    model.infer(request, None).await
}

/// Counts a request out again however it ends.
struct InFlight(Arc<Model>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.metrics().in_flight.dec();
    }
}

/// Waits on this thread.
pub(super) fn block(mut pending: Pending) -> Result<InferResponse> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(answer) = pending.poll(&mut Context::from_waker(&waker)) {
            return answer;
        }
        thread::park_timeout(pending.patience().map_or(LOOK, |patience| patience.min(LOOK)));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
