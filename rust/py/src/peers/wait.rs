//! Waiting for another model's answer: until it comes, the deadline passes, or nobody wants it any more.

use super::audience::Audience;
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
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<InferResponse>> + Send>>;

/// How long a model is waited for, and by whom.
pub(super) struct Patience {
    pub(super) model: Arc<Model>,
    audience: Audience,
    began: Instant,
    /// When the model's queue is to give the request up, if it still waits there.
    expires: Option<Instant>,
}

impl Patience {
    pub(super) fn new(model: Arc<Model>, priority: u64, audience: Audience) -> Self {
        let began = Instant::now();
        let limit = model.spec().queueing.patience(priority);
        let expires = limit.and_then(|limit| began.checked_add(limit + LATE));
        Self { model, audience, began, expires }
    }

    /// Has the queue give the request up, once, if its time there is over.
    pub(super) fn expire(&mut self) {
        if self.expires.is_some_and(|expires| expires <= Instant::now()) {
            self.expires = None;
            self.model.queue().reject_overdue();
        }
    }

    /// Why it is waited no longer, if so.
    pub(super) fn over(&self) -> Option<Error> {
        let name = &self.model.spec().name;
        if self.audience.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let text = format!("model '{name}' did not answer within the deadline");
            return Some(Error::new(Kind::Timeout, text));
        }
        let gone = || Error::new(Kind::Cancelled, format!("nobody waits for the answer of model '{name}' any more"));
        self.audience.is_gone().then(gone)
    }

    /// Counts how it ended, like the request of any caller.
    pub(super) fn ended(&self, error: Option<&Error>) {
        let metrics = self.model.metrics();
        match error {
            None => metrics.served(Protocol::InProcess),
            Some(error) => {
                metrics.failed(Protocol::InProcess, error.kind());
                metrics.statistics.failed(self.began.elapsed());
            }
        }
    }

    /// In how long it is to be looked again, whatever happens.
    pub(super) fn left(&self) -> Option<Duration> {
        let next = self.audience.deadline.into_iter().chain(self.expires).min();
        next.map(|next| next.saturating_duration_since(Instant::now()))
    }
}

/// A call that has not been answered yet.
pub(super) struct Pending {
    answer: Answer,
    patience: Patience,
}

impl Pending {
    /// Nothing is sent before it is polled.
    pub(super) fn new(model: Arc<Model>, request: InferRequest, audience: Audience) -> Self {
        let patience = Patience::new(Arc::clone(&model), request.schedule.priority, audience);
        Self { answer: Box::pin(answer(model, request)), patience }
    }

    /// The answer, or the error of who gives up. Counted like that of any caller.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<InferResponse>> {
        let polled = self.look(cx);
        if let Poll::Ready(answer) = &polled {
            self.patience.ended(answer.as_ref().err());
        }
        polled
    }

    fn look(&mut self, cx: &mut Context<'_>) -> Poll<Result<InferResponse>> {
        self.patience.expire();
        if let Poll::Ready(answer) = self.answer.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        self.patience.over().map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    }

    /// In how long it is to be polled again, whatever happens.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.patience.left()
    }
}

/// The answer of a model, whose request is sent when this is first polled.
pub(super) async fn answer(model: Arc<Model>, request: InferRequest) -> Result<InferResponse> {
    model.admit()?;
    let _leave = InFlight::enter(&model);
    model.infer(request, None).await
}

/// Counts a request out again however it ends.
pub(super) struct InFlight(Arc<Model>);

impl InFlight {
    pub(super) fn enter(model: &Arc<Model>) -> Self {
        model.metrics().in_flight.inc();
        Self(Arc::clone(model))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.metrics().in_flight.dec();
    }
}

/// Waits on this thread for what `poll` gives; `patience` says when it is to be asked whatever happens.
pub(super) fn block<S, T>(
    state: &mut S,
    mut poll: impl FnMut(&mut S, &mut Context<'_>) -> Poll<T>,
    patience: impl Fn(&S) -> Option<Duration>,
) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(answer) = poll(state, &mut Context::from_waker(&waker)) {
            return answer;
        }
        thread::park_timeout(patience(state).map_or(LOOK, |patience| patience.min(LOOK)));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
