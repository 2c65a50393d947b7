//! One-shot return path: a [`Ticket`] that the client's task awaits, and a [`Reply`] that travels with the request.
//!
//! A reply completes exactly once, with an internal error if it is dropped. For a stream, [`ResponseStream`] takes the
//! place of the ticket.
//!
//! A reply has one of three targets:
//!
//! * `Single`: a slot that the ticket shares. The result is stored and the ticket's task is woken.
//! * `Stream`: a bounded channel that the [`ResponseStream`] shares. Results are appended.
//! * `Remote`: the client belongs to another process, which holds the original reply. This reply sends nothing: the
//!   batch's results go there as one message. It only reports whether the client has abandoned the request.

use super::{Channel, CompletionQueue, ResponseChunk, ResponseStream, stream::channel};
use crate::{Error, InferResponse, Kind, Result};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Waker},
};

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be one more allocation for every request")]
enum SlotState {
    Pending(Option<Waker>),
    Ready(Result<InferResponse>),
    Taken,
}

/// Bit of [`Slot::fate`]: the ticket was dropped.
const LEFT: u8 = 1;

/// Bit of [`Slot::fate`]: a watcher wants to be woken when the ticket is dropped.
const WATCHED: u8 = 2;

#[derive(Debug)]
struct Slot {
    answer: Mutex<SlotState>,
    fate: AtomicU8,
    watcher: Mutex<Option<Waker>>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_abandoned(&self) -> bool {
        self.fate.load(Ordering::Acquire) & LEFT != 0
    }

    /// Wakes `waker` when the ticket is dropped, or now if it was.
    fn watch(&self, waker: &Waker) {
        *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
        if self.fate.fetch_or(WATCHED, Ordering::AcqRel) & LEFT != 0 {
            waker.wake_by_ref();
        }
    }

    fn leave(&self) {
        let watched = self.fate.fetch_or(LEFT, Ordering::AcqRel) & WATCHED != 0;
        // A ticket that is dropped after its result abandons nothing.
        if watched && matches!(*self.lock(), SlotState::Pending(_)) {
            let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
            watcher.into_iter().for_each(Waker::wake);
        }
    }
}

/// Client's half. Dropping it abandons the request.
#[must_use = "dropping a ticket abandons the request"]
#[derive(Debug)]
pub struct Ticket {
    slot: Arc<Slot>,
}

/// A client of another process.
pub trait RemoteClient: std::fmt::Debug + Send + Sync {
    /// Returns true if the client has abandoned the request.
    fn is_abandoned(&self) -> bool;
}

/// Target of a reply's results.
#[derive(Clone, Debug)]
enum Target {
    /// Client of another process, which sends the results itself.
    Remote(Arc<dyn RemoteClient>),
    /// One result.
    Single(Arc<Slot>),
    /// Any number of results.
    Stream(Arc<Channel>),
}

/// Server's half. Dropped without a result, it completes with an internal error.
#[must_use = "a reply that is dropped answers with an error"]
#[derive(Debug)]
pub struct Reply {
    target: Option<Target>,
    completions: Option<CompletionQueue>,
}

/// Tells handlers, on any thread, that the client has abandoned the request.
#[derive(Clone, Debug)]
pub struct CancelProbe(Target);

/// Creates a pair. With `completions`, results are handed over on that I/O thread.
pub fn reply(completions: Option<CompletionQueue>) -> (Reply, Ticket) {
    let slot = Arc::new(Slot {
        answer: Mutex::new(SlotState::Pending(None)),
        fate: AtomicU8::new(0),
        watcher: Mutex::new(None),
    });
    (Reply { target: Some(Target::Single(Arc::clone(&slot))), completions }, Ticket { slot })
}

/// Creates a pair for any number of responses. With `completions`, that I/O thread reads them.
pub fn replies(completions: Option<CompletionQueue>) -> (Reply, ResponseStream) {
    let (channel, chunks) = channel();
    (Reply { target: Some(Target::Stream(channel)), completions }, chunks)
}

impl Target {
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Remote(client) => client.is_abandoned(),
            Self::Single(slot) => slot.is_abandoned(),
            Self::Stream(channel) => channel.is_abandoned(),
        }
    }
}

impl Reply {
    /// Completes the reply on this thread. In a stream this is the last response.
    pub fn send(mut self, result: Result<InferResponse>) {
        self.answer(result);
    }

    fn answer(&mut self, result: Result<InferResponse>) {
        match self.target.take() {
            Some(Target::Single(slot)) => {
                let before = std::mem::replace(&mut *slot.lock(), SlotState::Ready(result));
                if let SlotState::Pending(Some(waker)) = before {
                    waker.wake();
                }
            }
            Some(Target::Stream(channel)) => {
                channel.push(result.map(|response| ResponseChunk { response, last: true }), self.completions.as_ref());
            }
            Some(Target::Remote(_)) | None => {}
        }
    }

    /// Reply to a client of another process. Results sent to it are ignored.
    pub fn remote(client: Arc<dyn RemoteClient>) -> Self {
        Self { target: Some(Target::Remote(client)), completions: None }
    }

    /// Returns true if the client has abandoned the request.
    pub fn is_abandoned(&self) -> bool {
        self.target.as_ref().is_some_and(Target::is_abandoned)
    }

    /// Wakes `waker` when the client abandons the request, and when a full stream has room again.
    pub(crate) fn watch(&self, waker: &Waker) {
        match &self.target {
            Some(Target::Single(slot)) => slot.watch(waker),
            Some(Target::Stream(channel)) => channel.watch(waker),
            // A remote client is polled, not watched.
            Some(Target::Remote(_)) | None => {}
        }
    }

    /// Handle for handlers that stop when the client abandons the request.
    pub fn cancel_probe(&self) -> Option<CancelProbe> {
        self.target.clone().map(CancelProbe)
    }

    /// Channel of a stream; `None` for a single response.
    pub(crate) fn channel(&self) -> Option<&Channel> {
        match &self.target {
            Some(Target::Stream(channel)) => Some(channel),
            _ => None,
        }
    }

    pub(crate) fn completions(&self) -> Option<&CompletionQueue> {
        self.completions.as_ref()
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.answer(Err(Error::new(Kind::Internal, "the request was dropped by the server")));
    }
}

impl CancelProbe {
    /// Returns true if the client has abandoned the request.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_abandoned()
    }
}

impl Future for Ticket {
    type Output = Result<InferResponse>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = self.slot.lock();
        match &mut *answer {
            SlotState::Pending(Some(waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            SlotState::Pending(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            SlotState::Ready(_) => match std::mem::replace(&mut *answer, SlotState::Taken) {
                SlotState::Ready(result) => Poll::Ready(result),
                SlotState::Pending(_) | SlotState::Taken => unreachable!("the lock is held"),
            },
            SlotState::Taken => panic!("a ticket is polled after it was answered"),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.slot.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dropped_reply_completes_the_ticket_with_an_error() {
        let (reply, ticket) = reply(None);
        drop(reply);
        assert_eq!(ticket.await.unwrap_err().kind(), Kind::Internal);
    }

    #[test]
    fn watcher_is_woken_once_when_the_client_disconnects() {
        struct Count(AtomicU8);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = Arc::new(Count(AtomicU8::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let (before, ticket) = reply(None);
        before.watch(&waker);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        drop(ticket);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        let (after, ticket) = reply(None);
        drop(ticket);
        after.watch(&waker);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn watcher_is_not_woken_by_a_client_with_its_response() {
        struct Never;
        impl std::task::Wake for Never {
            fn wake(self: Arc<Self>) {
                panic!("no client disconnected");
            }
        }
        let waker = Waker::from(Arc::new(Never));
        let (answered, ticket) = reply(None);
        answered.watch(&waker);
        let probe = answered.cancel_probe().unwrap();
        answered.send(Err(Error::new(Kind::Internal, "a response")));
        assert_eq!(ticket.await.unwrap_err().message(), "a response");
        assert!(probe.is_cancelled());
        let (unread, ticket) = reply(None);
        unread.watch(&waker);
        unread.send(Err(Error::new(Kind::Internal, "a response")));
        drop(ticket);
    }

    #[test]
    fn dropped_ticket_marks_the_reply_abandoned() {
        let (reply, ticket) = reply(None);
        let probe = reply.cancel_probe().unwrap();
        assert!(!reply.is_abandoned() && !probe.is_cancelled());
        drop(ticket);
        assert!(reply.is_abandoned() && probe.is_cancelled());
    }
}
