//! The way home of a request: a [`Ticket`] that the caller awaits and a [`Reply`] that travels with
//! the request and answers it exactly once, even when it is dropped. A request with many answers has
//! [`ResponseStream`] in place of the ticket.

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
enum Answer {
    Awaited(Option<Waker>),
    Given(Result<InferResponse>),
    Taken,
}

/// A bit of [`Slot::fate`]: the caller has left.
const LEFT: u8 = 1;

/// A bit of [`Slot::fate`]: somebody wants to be woken when the caller leaves.
const WATCHED: u8 = 2;

#[derive(Debug)]
struct Slot {
    answer: Mutex<Answer>,
    fate: AtomicU8,
    watcher: Mutex<Option<Waker>>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_abandoned(&self) -> bool {
        self.fate.load(Ordering::Acquire) & LEFT != 0
    }

    /// Has `waker` woken when the caller leaves, or now if it has.
    fn watch(&self, waker: &Waker) {
        *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
        if self.fate.fetch_or(WATCHED, Ordering::AcqRel) & LEFT != 0 {
            waker.wake_by_ref();
        }
    }

    fn leave(&self) {
        let watched = self.fate.fetch_or(LEFT, Ordering::AcqRel) & WATCHED != 0;
        // Who has its answer leaves nobody waiting for anything.
        if watched && matches!(*self.lock(), Answer::Awaited(_)) {
            let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
            watcher.into_iter().for_each(Waker::wake);
        }
    }
}

/// The caller's half. Dropping it tells the server that nobody waits any more.
#[must_use = "dropping a ticket abandons the request"]
#[derive(Debug)]
pub struct Ticket {
    slot: Arc<Slot>,
}

/// A caller that is known to another process: what this one can see of it.
pub trait RemoteClient: std::fmt::Debug + Send + Sync {
    /// Whether it has left.
    fn is_abandoned(&self) -> bool;
}

/// Where answers are left for the caller.
#[derive(Clone, Debug)]
enum Home {
    /// In another process, which hears of them in its own way.
    Elsewhere(Arc<dyn RemoteClient>),
    /// Exactly one.
    Once(Arc<Slot>),
    /// Any number.
    Many(Arc<Channel>),
}

/// The server's half. Dropped without an answer, it answers with an internal error.
#[must_use = "a reply that is dropped answers with an error"]
#[derive(Debug)]
pub struct Reply {
    home: Option<Home>,
    desk: Option<CompletionQueue>,
}

/// Tells, from anywhere, whether the caller has left.
#[derive(Clone, Debug)]
pub struct CancelProbe(Home);

/// A new pair. With a `desk`, answers are handed out on that desk's own thread.
pub fn reply(desk: Option<CompletionQueue>) -> (Reply, Ticket) {
    let slot =
        Arc::new(Slot { answer: Mutex::new(Answer::Awaited(None)), fate: AtomicU8::new(0), watcher: Mutex::new(None) });
    (Reply { home: Some(Home::Once(Arc::clone(&slot))), desk }, Ticket { slot })
}

/// A new pair for any number of answers. With a `desk`, its thread is the one that reads them.
pub fn replies(desk: Option<CompletionQueue>) -> (Reply, ResponseStream) {
    let (channel, pieces) = channel();
    (Reply { home: Some(Home::Many(channel)), desk }, pieces)
}

impl Home {
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Elsewhere(caller) => caller.is_abandoned(),
            Self::Once(slot) => slot.is_abandoned(),
            Self::Many(channel) => channel.is_abandoned(),
        }
    }
}

impl Reply {
    /// Answers the caller now, on this thread; of several answers this is the last.
    pub fn send(mut self, result: Result<InferResponse>) {
        self.answer(result);
    }

    fn answer(&mut self, result: Result<InferResponse>) {
        match self.home.take() {
            Some(Home::Once(slot)) => {
                let before = std::mem::replace(&mut *slot.lock(), Answer::Given(result));
                if let Answer::Awaited(Some(waker)) = before {
                    waker.wake();
                }
            }
            Some(Home::Many(channel)) => {
                channel.push(result.map(|response| ResponseChunk { response, last: true }), self.desk.as_ref());
            }
            Some(Home::Elsewhere(_)) | None => {}
        }
    }

    /// The reply to a caller of another process. What is sent with it goes nowhere.
    pub fn remote(caller: Arc<dyn RemoteClient>) -> Self {
        Self { home: Some(Home::Elsewhere(caller)), desk: None }
    }

    /// Whether the caller has left.
    pub fn is_abandoned(&self) -> bool {
        self.home.as_ref().is_some_and(Home::is_abandoned)
    }

    /// Has `waker` woken when the caller leaves, and whenever a full stream has room again.
    pub(crate) fn watch(&self, waker: &Waker) {
        match &self.home {
            Some(Home::Once(slot)) => slot.watch(waker),
            Some(Home::Many(channel)) => channel.watch(waker),
            // Who waits in another process is not watched: it is looked for.
            Some(Home::Elsewhere(_)) | None => {}
        }
    }

    /// A handle for handlers that want to stop when the caller leaves.
    pub fn cancel_probe(&self) -> Option<CancelProbe> {
        self.home.clone().map(CancelProbe)
    }

    /// Where pieces go; `None` for a caller that gets one answer.
    pub(crate) fn channel(&self) -> Option<&Channel> {
        match &self.home {
            Some(Home::Many(channel)) => Some(channel),
            _ => None,
        }
    }

    pub(crate) fn completions(&self) -> Option<&CompletionQueue> {
        self.desk.as_ref()
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.answer(Err(Error::new(Kind::Internal, "the request was dropped by the server")));
    }
}

impl CancelProbe {
    /// Whether the caller has left.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_abandoned()
    }
}

impl Future for Ticket {
    type Output = Result<InferResponse>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = self.slot.lock();
        match &mut *answer {
            Answer::Awaited(Some(waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            Answer::Awaited(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Answer::Given(_) => match std::mem::replace(&mut *answer, Answer::Taken) {
                Answer::Given(result) => Poll::Ready(result),
                Answer::Awaited(_) | Answer::Taken => unreachable!("the lock is held"),
            },
            Answer::Taken => panic!("a ticket is polled after it was answered"),
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
    async fn a_dropped_reply_answers_with_an_error() {
        let (reply, ticket) = reply(None);
        drop(reply);
        assert_eq!(ticket.await.unwrap_err().kind(), Kind::Internal);
    }

    #[test]
    fn who_watches_is_woken_once_when_the_caller_leaves() {
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
    async fn who_watches_is_not_woken_by_a_caller_that_has_its_answer() {
        struct Never;
        impl std::task::Wake for Never {
            fn wake(self: Arc<Self>) {
                panic!("nobody has given up");
            }
        }
        let waker = Waker::from(Arc::new(Never));
        let (answered, ticket) = reply(None);
        answered.watch(&waker);
        let probe = answered.cancel_probe().unwrap();
        answered.send(Err(Error::new(Kind::Internal, "an answer")));
        assert_eq!(ticket.await.unwrap_err().message(), "an answer");
        assert!(probe.is_cancelled());
        let (unread, ticket) = reply(None);
        unread.watch(&waker);
        unread.send(Err(Error::new(Kind::Internal, "an answer")));
        drop(ticket);
    }

    #[test]
    fn a_dropped_ticket_is_seen_by_the_reply() {
        let (reply, ticket) = reply(None);
        let probe = reply.cancel_probe().unwrap();
        assert!(!reply.is_abandoned() && !probe.is_cancelled());
        drop(ticket);
        assert!(reply.is_abandoned() && probe.is_cancelled());
    }
}
