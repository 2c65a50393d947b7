//! Wait for another model's response: until it comes, the deadline passes, or all clients have disconnected.

use super::audience::Audience;
use penstock_core::{CompletionQueue, Error, InferRequest, InferResponse, Kind, Model, Protocol, Result};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// The interval at which a waiting thread checks whether its clients have disconnected.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time after a queue's limit at which the wait checks for an expired request.
const EXPIRY_MARGIN: Duration = Duration::from_millis(1);

/// A response that has not come yet.
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<InferResponse>> + Send>>;

/// The limits of a wait for a model.
pub(super) struct Patience {
    pub(super) model: Arc<Model>,
    audience: Audience,
    /// The time of the call.
    pub(super) began: Instant,
    /// The time at which the model's queue expires the request, if it still waits there.
    expires: Option<Instant>,
}

impl Patience {
    pub(super) fn new(model: Arc<Model>, priority: u64, audience: Audience) -> Self {
        let began = Instant::now();
        let limit = model.spec().queueing.patience(priority);
        let expires = limit.and_then(|limit| began.checked_add(limit + EXPIRY_MARGIN));
        Self { model, audience, began, expires }
    }

    /// Expires the request in the queue, once, if its time there is over.
    pub(super) fn expire(&mut self) {
        if self.expires.is_some_and(|expires| expires <= Instant::now()) {
            self.expires = None;
            self.model.queue().reject_overdue();
        }
    }

    /// The reason to wait no longer, if there is one.
    pub(super) fn over(&self) -> Option<Error> {
        let name = &self.model.spec().name;
        if self.audience.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let text = format!("model '{name}' did not answer within the deadline");
            return Some(Error::new(Kind::Timeout, text));
        }
        let gone = || Error::new(Kind::Cancelled, format!("nobody waits for the answer of model '{name}' any more"));
        self.audience.is_gone().then(gone)
    }

    /// The queue of the I/O thread of the only client.
    pub(super) fn completions(&self) -> Option<&CompletionQueue> {
        self.audience.completions.as_ref()
    }

    /// Counts the result, like that of any client.
    pub(super) fn ended(&self, error: Option<&Error>) {
        let metrics = self.model.metrics();
        match error {
            None => {
                metrics.served(Protocol::InProcess);
                metrics.request_time(Protocol::InProcess, self.began.elapsed(), None);
            }
            Some(error) => {
                metrics.failed(Protocol::InProcess, error.kind());
                metrics.statistics.failed(self.began.elapsed());
            }
        }
    }

    /// The time until the next check, even without a notification.
    pub(super) fn left(&self) -> Option<Duration> {
        self.next_check().map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// The time of the next check, even without a notification.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.audience.deadline.into_iter().chain(self.expires).min()
    }
}

/// A call without a response yet.
pub(super) struct Pending {
    answer: Answer,
    patience: Patience,
}

impl Pending {
    /// The request is sent at the first poll.
    pub(super) fn new(model: Arc<Model>, request: InferRequest, audience: Audience) -> Self {
        let patience = Patience::new(Arc::clone(&model), request.schedule.priority, audience);
        Self { answer: Box::pin(answer(model, request)), patience }
    }

    /// Returns the response, or the error of a wait that is over. Counts it like that of any client.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<InferResponse>> {
        let polled = self.poll_uncounted(cx);
        if let Poll::Ready(answer) = &polled {
            self.patience.ended(answer.as_ref().err());
        }
        polled
    }

    fn poll_uncounted(&mut self, cx: &mut Context<'_>) -> Poll<Result<InferResponse>> {
        self.patience.expire();
        if let Poll::Ready(answer) = self.answer.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        self.patience.over().map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    }

    /// The time until the next poll, even without a notification.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.patience.left()
    }
}

/// The response of a model. The first poll sends the request.
pub(super) async fn answer(model: Arc<Model>, request: InferRequest) -> Result<InferResponse> {
    model.admit()?;
    let _leave = InFlight::enter(&model);
    model.infer(request, None).await
}

/// Counts a request as active until it is dropped.
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

/// Blocks this thread until `poll` is ready; `patience` is the time until the next poll without a wake-up.
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
        thread::park_timeout(patience(state).map_or(POLL_INTERVAL, |patience| patience.min(POLL_INTERVAL)));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
