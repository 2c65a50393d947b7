//! Completion queue: one per I/O thread. It bundles wake-ups between the I/O thread and handler threads.
//!
//! Waking a task of another thread costs a system call, and so does waking a handler thread. For a batch of 32
//! responses that would be 32 calls. Instead, a handler thread leaves all responses of a batch here and wakes the
//! I/O thread once. The I/O thread completes the replies; waking a local task is a push to a local list.
//!
//! The other direction is deferred, too. A submitted request that should wake an idle instance is noted here. The
//! instance is notified after the I/O thread has queued all requests of one socket poll. They join one batch, and no
//! wait is added.

use super::{Notify, Reply};
use crate::{InferResponse, Result};
use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// A reply, and the result that completes it.
type Delivery = (Reply, Result<InferResponse>);

/// Handle to the completion queue of one I/O thread.
#[derive(Clone, Debug, Default)]
pub struct CompletionQueue(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    deliveries: Vec<Delivery>,
    to_notify: Vec<Arc<Notify>>,
    to_wake: Vec<Waker>,
    waker: Option<Waker>,
}

impl CompletionQueue {
    /// A completion queue that does nothing until [`CompletionQueue::run`] runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs the completion queue. Spawn it once, on the thread whose requests carry this handle.
    pub async fn run(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Adds the results of a batch; the I/O thread completes the replies.
    pub(crate) fn deliver(&self, mut deliveries: Vec<Delivery>) {
        let mut state = self.lock();
        let is_first = state.deliveries.is_empty();
        if is_first {
            state.deliveries = deliveries;
        } else {
            state.deliveries.append(&mut deliveries);
        }
        wake(state, is_first);
    }

    /// Defers the notification of a lane until the I/O thread has queued its requests.
    pub(crate) fn notify_deferred(&self, lane: &Arc<Notify>) {
        let mut state = self.lock();
        let is_first = state.to_notify.is_empty();
        if !state.to_notify.iter().any(|noted| Arc::ptr_eq(noted, lane)) {
            state.to_notify.push(Arc::clone(lane));
        }
        wake(state, is_first);
    }

    /// Defers waking a task of the I/O thread.
    pub(crate) fn wake_deferred(&self, waker: Waker) {
        let mut state = self.lock();
        let is_first = state.to_wake.is_empty();
        state.to_wake.push(waker);
        wake(state, is_first);
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let deliveries = std::mem::take(&mut state.deliveries);
        let to_notify = std::mem::take(&mut state.to_notify);
        let to_wake = std::mem::take(&mut state.to_wake);
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        drop(state);
        // A batch that is computed here delivers its results to the next poll, in the same tick.
        to_notify.iter().for_each(|lane| lane.compute_or_notify_one());
        for (reply, result) in deliveries {
            reply.send(result);
        }
        to_wake.into_iter().for_each(Waker::wake);
        Poll::Pending
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the I/O thread for the first entry of a list; it takes the others with it. The lock is released first, so that
/// the thread does not wait for it.
fn wake(state: MutexGuard<'_, State>, is_first: bool) {
    if !is_first {
        return;
    }
    let waker = state.waker.clone();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Results of one batch, grouped by completion queue.
#[derive(Default)]
pub(crate) struct Deliveries {
    by_queue: Vec<(CompletionQueue, Vec<Delivery>)>,
}

impl Deliveries {
    pub(crate) fn push(&mut self, reply: Reply, result: Result<InferResponse>) {
        let Some(completions) = reply.completions() else { return reply.send(result) };
        match self.by_queue.iter_mut().find(|(known, _)| known.is(completions)) {
            Some((_, deliveries)) => deliveries.push((reply, result)),
            None => self.by_queue.push((completions.clone(), vec![(reply, result)])),
        }
    }

    pub(crate) fn send(self) {
        for (completions, deliveries) in self.by_queue {
            completions.deliver(deliveries);
        }
    }
}
