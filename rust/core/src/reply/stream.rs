//! The way home of a request with any number of answers: [`ResponseStream`] that its caller reads, and a
//! bounded channel that its handler fills.
//!
//! The channel is what pauses a handler whose caller reads slowly: nothing beyond [`ROOM`] pieces is
//! kept. The caller takes all that is there at once, so that a fast handler costs it one lock and one
//! wake for many pieces.

use super::CompletionQueue;
use crate::{Error, InferResponse, Kind, Result};
use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

/// ResponseStream that wait for a caller before its handler is paused.
const ROOM: usize = 64;

/// One of the answers to a request.
#[derive(Clone, Debug)]
pub struct ResponseChunk {
    /// The answer.
    pub response: InferResponse,
    /// Whether its handler said that it is the last one. A stream may also end without such a piece.
    pub last: bool,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Result<ResponseChunk>>,
    waker: Option<Waker>,
    /// Woken when a full stream has room again and when the caller leaves: a handler that does not block.
    producer: Option<Waker>,
    ended: bool,
}

/// What the handler's side and the caller's side share.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    state: Mutex<State>,
    room: Condvar,
    left: AtomicBool,
}

/// The answers to one request, in order. Dropping it tells the handler that nobody reads any more.
#[must_use = "dropping the pieces abandons the request"]
#[derive(Debug)]
pub struct ResponseStream {
    channel: Arc<Channel>,
    /// Taken out of the channel, and not read yet.
    ready: VecDeque<Result<ResponseChunk>>,
}

/// A new pair of ends.
pub(crate) fn channel() -> (Arc<Channel>, ResponseStream) {
    let channel = Arc::new(Channel::default());
    (Arc::clone(&channel), ResponseStream { channel, ready: VecDeque::new() })
}

impl Channel {
    /// Adds a piece; an error, and a piece that is the last, end the stream. After the end nothing is added.
    pub(crate) fn push(&self, piece: Result<ResponseChunk>, desk: Option<&CompletionQueue>) {
        let mut state = self.lock();
        if state.ended {
            return;
        }
        state.ended = piece.as_ref().map_or(true, |piece| piece.last);
        state.waiting.push_back(piece);
        wake(state, desk);
    }

    /// Ends the stream without a further piece.
    pub(crate) fn end(&self, desk: Option<&CompletionQueue>) {
        let mut state = self.lock();
        state.ended = true;
        wake(state, desk);
    }

    /// Whether its last piece is in it.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Whether the caller is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Whether a piece would have to wait for the caller.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().waiting.len() >= ROOM
    }

    /// Blocks until there is room or the stream is over. False when there is none after `patience`.
    pub(crate) fn wait_for_room(&self, patience: Duration) -> bool {
        let full = |state: &mut State| state.waiting.len() >= ROOM && !state.ended && !self.is_abandoned();
        let waited = self.room.wait_timeout_while(self.lock(), patience, full);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Has `producer` woken when a full stream has room again and when the caller leaves, or now if it has.
    pub(crate) fn watch(&self, producer: &Waker) {
        self.lock().producer = Some(producer.clone());
        if self.is_abandoned() {
            producer.wake_by_ref();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake_producer(channel: &Channel, state: MutexGuard<'_, State>) {
    let producer = state.producer.clone();
    drop(state);
    channel.room.notify_all();
    producer.into_iter().for_each(Waker::wake);
}

fn wake(mut state: MutexGuard<'_, State>, desk: Option<&CompletionQueue>) {
    let waker = state.waker.take();
    drop(state);
    match (waker, desk) {
        (Some(waker), Some(desk)) => desk.wake_deferred(waker),
        (Some(waker), None) => waker.wake(),
        (None, _) => {}
    }
}

impl ResponseStream {
    /// The next piece; `None` at the end.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ResponseChunk>>> {
        if let Some(piece) = self.ready.pop_front() {
            return Poll::Ready(Some(piece));
        }
        let mut state = self.channel.lock();
        if state.waiting.is_empty() {
            if state.ended {
                return Poll::Ready(None);
            }
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        let was_full = state.waiting.len() >= ROOM;
        std::mem::swap(&mut state.waiting, &mut self.ready);
        if was_full {
            wake_producer(&self.channel, state);
        } else {
            drop(state);
        }
        Poll::Ready(self.ready.pop_front())
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<ResponseChunk>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.channel.left.store(true, Ordering::Release);
        // With the lock, so that a handler between its look and its wait is not missed.
        wake_producer(&self.channel, self.channel.lock());
    }
}

/// What a caller is told whose handler was paused for it for too long.
pub(crate) fn stalled(model: &str, patience: Duration) -> Error {
    Error::new(Kind::Timeout, format!("the answers of model '{model}' were not read for {} s", patience.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(last: bool) -> Result<ResponseChunk> {
        Ok(ResponseChunk { response: InferResponse::default(), last })
    }

    #[tokio::test]
    async fn pieces_come_in_order_and_end_with_the_last() {
        let (channel, mut pieces) = channel();
        channel.push(piece(false), None);
        channel.push(piece(true), None);
        channel.push(piece(false), None);
        assert!(!pieces.next().await.unwrap().unwrap().last);
        assert!(pieces.next().await.unwrap().unwrap().last);
        assert!(pieces.next().await.is_none());
    }

    #[tokio::test]
    async fn an_error_ends_the_stream() {
        let (channel, mut pieces) = channel();
        channel.push(Err(Error::handler("no")), None);
        channel.push(piece(false), None);
        assert_eq!(pieces.next().await.unwrap().unwrap_err().message(), "no");
        assert!(pieces.next().await.is_none());
    }

    #[tokio::test]
    async fn a_full_channel_waits_for_its_reader() {
        let (channel, mut pieces) = channel();
        for _ in 0..ROOM {
            assert!(!channel.is_full());
            channel.push(piece(false), None);
        }
        assert!(channel.is_full());
        assert!(!channel.wait_for_room(Duration::from_millis(1)));
        let waiting = Arc::clone(&channel);
        let handler = std::thread::spawn(move || waiting.wait_for_room(Duration::from_secs(60)));
        pieces.next().await.unwrap().unwrap();
        assert!(handler.join().unwrap());
    }

    #[test]
    fn a_handler_that_waits_learns_that_its_caller_left() {
        let (channel, pieces) = channel();
        (0..ROOM).for_each(|_| channel.push(piece(false), None));
        let waiting = Arc::clone(&channel);
        let handler = std::thread::spawn(move || waiting.wait_for_room(Duration::from_secs(60)));
        drop(pieces);
        assert!(handler.join().unwrap());
        assert!(channel.is_abandoned());
    }
}
