//! One event stream: its driver, which takes events from the handler, and the reader of the current connection.

use super::{
    event_id::Token,
    owner::Owner,
    ring::{EventRing, Unreachable},
};
use bytes::Bytes;
use http::HeaderMap;
use penstock_core::{Error, Kind, metrics::Metrics};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// Request that a stream answers.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    /// Path, at which it can be resumed.
    pub(crate) path: String,
    pub(crate) model: Arc<str>,
    pub(crate) owner: Owner,
    /// Headers of each of its responses.
    pub(crate) headers: HeaderMap,
    /// Time for which it is kept without a reader.
    pub(crate) keep: Duration,
}

/// End of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All events are there.
    Complete,
    /// The handler failed.
    Cut,
}

/// Next step of the driver.
#[derive(Debug)]
pub(crate) enum NextStep {
    /// Ends the stream, and the request if it runs.
    Stop,
    /// Waits for its reader, until a time if there is none.
    Wait(Option<Instant>),
    /// Takes more from the handler. If there is nothing, it waits as above.
    Pull(Option<Instant>),
}

/// A reader's place in the order of readers. The last one has the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attachment(u64);

/// State that the driver and the readers share.
#[derive(Debug)]
pub(crate) struct ResumableStream {
    pub(crate) token: Token,
    pub(crate) place: StreamPlace,
    state: Mutex<State>,
    /// Its events are counted as the memory of requests.
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct State {
    ring: EventRing,
    /// Bytes that the metrics count.
    counted: usize,
    /// Readers so far.
    attachments: u64,
    is_attached: bool,
    /// Time of the last reader's end.
    alone_since: Instant,
    reader: Option<Waker>,
    driver: Option<Waker>,
    ending: Option<Ending>,
    /// Cancelled, or without a reader for too long.
    is_closed: bool,
    /// Not kept once its reader has left.
    is_forgotten: bool,
}

impl ResumableStream {
    /// Creates a stream, with its first reader.
    pub(crate) fn new(token: Token, place: StreamPlace, metrics: &Arc<Metrics>) -> (Arc<Self>, Attachment) {
        let state = State {
            ring: EventRing::default(),
            counted: 0,
            attachments: 1,
            is_attached: true,
            alone_since: Instant::now(),
            reader: None,
            driver: None,
            ending: None,
            is_closed: false,
            is_forgotten: false,
        };
        (Arc::new(Self { token, place, state: Mutex::new(state), metrics: Arc::clone(metrics) }), Attachment(1))
    }

    /// Returns what the driver does now. It is woken when that changes.
    pub(crate) fn next_step(&self, cx: &Context<'_>, is_draining: bool) -> NextStep {
        let mut state = self.lock();
        set(&mut state.driver, cx);
        let keep = if state.is_forgotten { Duration::ZERO } else { self.place.keep };
        let until = (!state.is_attached).then(|| state.alone_since + keep);
        // A stream without a reader does not delay a drain.
        let is_over = until.is_some_and(|until| is_draining || until <= Instant::now());
        state.is_closed |= is_over;
        match &*state {
            State { is_closed: true, .. } => NextStep::Stop,
            State { ending: None, ring, .. } if !ring.is_full() => NextStep::Pull(until),
            _ => NextStep::Wait(until),
        }
    }

    /// Adds events. While requests hold more than `limit` bytes, it keeps
    /// nothing that was sent.
    pub(crate) fn push(&self, events: impl IntoIterator<Item = Bytes>, limit: usize) {
        let mut state = self.lock();
        events.into_iter().for_each(|event| state.ring.push(event));
        self.count(&mut state);
        if usize::try_from(self.metrics.body_bytes.get()).unwrap_or(0) > limit {
            state.ring.forget_sent();
            self.count(&mut state);
        }
        wake(state, |state| state.reader.take());
    }

    /// Ends the stream. Returns the bytes that it still holds.
    pub(crate) fn end(&self, ending: Ending) -> usize {
        let mut state = self.lock();
        state.ending.get_or_insert(ending);
        let held = state.ring.bytes();
        wake(state, |state| state.reader.take());
        held
    }

    /// Ends the stream for the driver and the reader.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let driver = state.driver.take();
        wake(state, |state| state.reader.take());
        driver.into_iter().for_each(Waker::wake);
    }

    /// Keeps nothing for another reader. The current one gets all events.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.is_forgotten = true;
        state.ring.forget_sent();
        self.count(&mut state);
        wake(state, |state| state.driver.take());
    }

    /// Has the driver look again.
    pub(crate) fn wake_driver(&self) {
        wake(self.lock(), |state| state.driver.take());
    }

    /// Gives the stream to a new reader, after the event of a number. The reader before it is ended.
    ///
    /// # Errors
    /// `NotFound` after the end and for events that are not kept, `InvalidInput` for those that are not there yet.
    pub(crate) fn attach(&self, after: u64) -> Result<Attachment, Error> {
        let mut state = self.lock();
        if state.is_closed || state.is_forgotten {
            return Err(unknown_stream());
        }
        state.ring.rewind(after).map_err(|unreachable| match unreachable {
            Unreachable::Dropped(first) => Error::new(
                Kind::NotFound,
                format!("the events after number {after} are no longer kept, the first one that is has number {first}"),
            ),
            Unreachable::Ahead(last) => {
                Error::invalid(format!("Last-Event-ID names event {after}, the stream has {last} events so far"))
            }
        })?;
        state.attachments += 1;
        state.is_attached = true;
        let (attachment, driver) = (Attachment(state.attachments), state.driver.take());
        wake(state, |state| state.reader.take());
        driver.into_iter().for_each(Waker::wake);
        Ok(attachment)
    }

    /// Ends a reader.
    pub(crate) fn release(&self, attachment: Attachment) {
        let mut state = self.lock();
        if state.attachments != attachment.0 || !std::mem::take(&mut state.is_attached) {
            return;
        }
        state.alone_since = Instant::now();
        state.reader = None;
        wake(state, |state| state.driver.take());
    }

    /// Polls the next events for a reader, of about `limit` bytes; `None` at the end.
    ///
    /// # Errors
    /// `Cancelled` once another reader has the stream, or if its end will not come.
    pub(crate) fn poll_events(
        &self,
        attachment: Attachment,
        cx: &Context<'_>,
        limit: usize,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        let mut state = self.lock();
        if state.attachments != attachment.0 {
            return Poll::Ready(Some(Err(cut("another connection has resumed the stream"))));
        }
        if state.is_closed {
            return Poll::Ready(Some(Err(cut("the stream was cancelled"))));
        }
        if state.ring.has_waiting() {
            let mut events = Vec::with_capacity(limit.min(1 << 10));
            let was_full = state.ring.is_full();
            state.ring.take(&mut events, limit);
            self.count(&mut state);
            if was_full {
                wake(state, |state| state.driver.take());
            }
            return Poll::Ready(Some(Ok(events.into())));
        }
        match state.ending {
            Some(Ending::Complete) => Poll::Ready(None),
            Some(Ending::Cut) => Poll::Ready(Some(Err(cut("the handler failed")))),
            None => {
                set(&mut state.reader, cx);
                Poll::Pending
            }
        }
    }

    /// Reports whether a reader has all events of a complete stream.
    pub(crate) fn is_read(&self, attachment: Attachment) -> bool {
        let state = self.lock();
        let is_complete = state.ending == Some(Ending::Complete) && !state.ring.has_waiting();
        is_complete && !state.is_closed && state.attachments == attachment.0
    }

    fn count(&self, state: &mut State) {
        let bytes = state.ring.bytes();
        self.metrics.body_bytes.inc_by(bytes as i64 - state.counted as i64);
        state.counted = bytes;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ResumableStream {
    fn drop(&mut self) {
        self.metrics.body_bytes.dec_by(self.lock().counted as i64);
    }
}

/// Error for a client that may not know whether the stream exists.
pub(crate) fn unknown_stream() -> Error {
    Error::new(Kind::NotFound, "unknown stream: it has ended and is no longer kept, or belongs to another client")
}

fn cut(why: &'static str) -> Error {
    Error::new(Kind::Cancelled, why)
}

fn set(waker: &mut Option<Waker>, cx: &Context<'_>) {
    if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
        *waker = Some(cx.waker().clone());
    }
}

/// Wakes a task without the lock.
fn wake(mut state: MutexGuard<'_, State>, waker: impl FnOnce(&mut State) -> Option<Waker>) {
    let waker = waker(&mut state);
    drop(state);
    waker.into_iter().for_each(Waker::wake);
}
