//! Return path of a stream: a bounded channel between a handler and a [`ResponseStream`].
//!
//! The channel pauses a handler whose client reads slowly: it holds at most [`ROOM`] chunks. The client takes all
//! chunks at once, so that many chunks cost one lock and one wake-up.

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

/// Maximum chunks in a channel; then the handler is paused.
const ROOM: usize = 64;

/// Chunks that wake a deferred client, before its handler is paused.
const DEFERRED: usize = ROOM / 2;

/// One response of a stream.
#[derive(Clone, Debug)]
pub struct ResponseChunk {
    /// Response.
    pub response: InferResponse,
    /// The handler marked it as the last one. A stream may also end without such a chunk.
    pub last: bool,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Result<ResponseChunk>>,
    waker: Option<Waker>,
    /// The client wants to be woken when [`DEFERRED`] chunks wait, or at the end.
    deferred: bool,
    /// Task of a handler that does not block: woken when a full channel has room again, and when the client leaves.
    producer: Option<Waker>,
    ended: bool,
    /// Queue of the client's thread, in place of the one of its request.
    completions: Option<CompletionQueue>,
}

/// State that both ends share.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    state: Mutex<State>,
    room: Condvar,
    left: AtomicBool,
}

/// Responses to one request, in order. Dropping it abandons the request.
#[must_use = "dropping the chunks abandons the request"]
#[derive(Debug)]
pub struct ResponseStream {
    channel: Arc<Channel>,
    /// Chunks taken from the channel and not read yet.
    ready: VecDeque<Result<ResponseChunk>>,
    deferred: bool,
}

/// Creates both ends.
pub(crate) fn channel() -> (Arc<Channel>, ResponseStream) {
    let channel = Arc::new(Channel::default());
    (Arc::clone(&channel), ResponseStream { channel, ready: VecDeque::new(), deferred: false })
}

impl Channel {
    /// Appends a chunk. An error or a last chunk ends the stream; later chunks are ignored.
    pub(crate) fn push(&self, chunk: Result<ResponseChunk>, completions: Option<&CompletionQueue>) {
        let mut state = self.lock();
        if state.ended {
            return;
        }
        state.ended = chunk.as_ref().map_or(true, |chunk| chunk.last);
        if self.is_abandoned() {
            // Nobody takes it, and what it holds may refer to this channel.
            drop(state);
            return drop(chunk);
        }
        state.waiting.push_back(chunk);
        if !state.deferred || state.ended || state.waiting.len() >= DEFERRED {
            wake(state, completions);
        }
    }

    /// Ends the stream without a chunk.
    pub(crate) fn end(&self, completions: Option<&CompletionQueue>) {
        let mut state = self.lock();
        state.ended = true;
        wake(state, completions);
    }

    /// Returns true if the last chunk was appended.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Returns true if the client has dropped its end.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Returns true if the channel has no room.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().waiting.len() >= ROOM
    }

    /// Blocks until there is room or the stream is over. Returns false after `patience`.
    pub(crate) fn wait_for_room(&self, patience: Duration) -> bool {
        let full = |state: &mut State| state.waiting.len() >= ROOM && !state.ended && !self.is_abandoned();
        let waited = self.room.wait_timeout_while(self.lock(), patience, full);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Wakes `producer` when a full channel has room again and when the client leaves, or now if it has left.
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

fn wake(mut state: MutexGuard<'_, State>, completions: Option<&CompletionQueue>) {
    let waker = state.waker.take();
    let own = state.completions.clone();
    drop(state);
    match (waker, own.as_ref().or(completions)) {
        (Some(waker), Some(completions)) => completions.wake_deferred(waker),
        (Some(waker), None) => waker.wake(),
        (None, _) => {}
    }
}

impl ResponseStream {
    /// With `deferred`, a poll that waits is woken when many chunks wait or the stream ends, not by each chunk.
    pub fn set_deferred(&mut self, deferred: bool) {
        self.deferred = deferred;
    }

    /// From now on, wakes the client through the queue of its I/O thread.
    pub fn set_completions(&mut self, completions: CompletionQueue) {
        let mut state = self.channel.lock();
        // A waker of another thread is not for this queue.
        state.waker = None;
        state.completions = Some(completions);
    }

    /// Polls for the next chunk; `None` at the end.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ResponseChunk>>> {
        if let Some(chunk) = self.ready.pop_front() {
            return Poll::Ready(Some(chunk));
        }
        let mut state = self.channel.lock();
        if state.waiting.is_empty() {
            if state.ended {
                return Poll::Ready(None);
            }
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            state.deferred = self.deferred;
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

    /// Returns the next chunk; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<ResponseChunk>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.channel.left.store(true, Ordering::Release);
        // Takes the lock, so that a handler between its check and its wait gets the notification.
        let mut state = self.channel.lock();
        let unread = std::mem::take(&mut state.waiting);
        wake_producer(&self.channel, state);
        drop(unread);
    }
}

/// Error for a client that paused the handler for too long.
pub(crate) fn stalled(model: &str, patience: Duration) -> Error {
    Error::new(Kind::Timeout, format!("the answers of model '{model}' were not read for {} s", patience.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicUsize, task::Wake};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn chunk(last: bool) -> Result<ResponseChunk> {
        Ok(ResponseChunk { response: InferResponse::default(), last })
    }

    #[tokio::test]
    async fn chunks_arrive_in_order_and_end_with_the_last() {
        let (channel, mut chunks) = channel();
        channel.push(chunk(false), None);
        channel.push(chunk(true), None);
        channel.push(chunk(false), None);
        assert!(!chunks.next().await.unwrap().unwrap().last);
        assert!(chunks.next().await.unwrap().unwrap().last);
        assert!(chunks.next().await.is_none());
    }

    #[tokio::test]
    async fn error_ends_the_stream() {
        let (channel, mut chunks) = channel();
        channel.push(Err(Error::handler("no")), None);
        channel.push(chunk(false), None);
        assert_eq!(chunks.next().await.unwrap().unwrap_err().message(), "no");
        assert!(chunks.next().await.is_none());
    }

    #[tokio::test]
    async fn full_channel_waits_for_its_reader() {
        let (channel, mut chunks) = channel();
        for _ in 0..ROOM {
            assert!(!channel.is_full());
            channel.push(chunk(false), None);
        }
        assert!(channel.is_full());
        assert!(!channel.wait_for_room(Duration::from_millis(1)));
        let waiting = Arc::clone(&channel);
        let handler = std::thread::spawn(move || waiting.wait_for_room(Duration::from_secs(60)));
        chunks.next().await.unwrap().unwrap();
        assert!(handler.join().unwrap());
    }

    /// A chunk whose body owns `mark`.
    fn marked(mark: &Arc<[u8]>) -> Result<ResponseChunk> {
        let body = Some(bytes::Bytes::from_owner(Arc::clone(mark)));
        let head = crate::ResponseHead { body, ..crate::ResponseHead::default() };
        let response = InferResponse { head: Some(Box::new(head)), ..InferResponse::default() };
        Ok(ResponseChunk { response, last: false })
    }

    #[test]
    fn chunks_of_a_client_that_left_are_dropped() {
        let (mark, (channel, chunks)) = (Arc::from(*b"a"), channel());
        channel.push(marked(&mark), None);
        assert_eq!(Arc::strong_count(&mark), 2);
        drop(chunks);
        assert_eq!(Arc::strong_count(&mark), 1);
        channel.push(marked(&mark), None);
        assert_eq!(Arc::strong_count(&mark), 1);
    }

    #[test]
    fn deferred_client_is_woken_by_many_chunks_or_the_end() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let (channel, mut chunks) = channel();
        chunks.set_deferred(true);
        assert!(chunks.poll_next(&mut cx).is_pending());
        (1..DEFERRED).for_each(|_| channel.push(chunk(false), None));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        channel.push(chunk(false), None);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        while chunks.poll_next(&mut cx).is_ready() {}
        channel.push(chunk(true), None);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn client_is_woken_by_the_first_chunk_once_it_is_not_deferred() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let (channel, mut chunks) = channel();
        for deferred in [true, false] {
            chunks.set_deferred(deferred);
            assert!(chunks.poll_next(&mut cx).is_pending());
        }
        channel.push(chunk(false), None);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn handler_waiting_for_room_is_released_by_a_disconnect() {
        let (channel, chunks) = channel();
        (0..ROOM).for_each(|_| channel.push(chunk(false), None));
        let waiting = Arc::clone(&channel);
        let handler = std::thread::spawn(move || waiting.wait_for_room(Duration::from_secs(60)));
        drop(chunks);
        assert!(handler.join().unwrap());
        assert!(channel.is_abandoned());
    }
}
