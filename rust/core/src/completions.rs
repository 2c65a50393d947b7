//! One desk per I/O thread, where its traffic with the handler threads is bundled.
//!
//! Waking a task from another thread costs a system call, and so does waking a handler thread. A
//! batch of 32 answers would pay it 32 times. So a handler thread leaves all answers of a batch at
//! the desk and wakes it once; the desk hands them out on the I/O thread, where waking is a push to
//! a local list. The other way round, a request that should wake an idle instance is noted at the
//! desk, which rings once all requests that the socket poll made ready are in the queue: they join
//! one batch, without any added wait.

use crate::{InferResponse, Result, queue::Queue, reply::Reply};
use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// An answered request on its way home.
pub(crate) type Delivery = (Reply, Result<InferResponse>);

/// A handle to the desk of one I/O thread.
#[derive(Clone, Debug, Default)]
pub struct CompletionQueue(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    deliveries: Vec<Delivery>,
    /// Queues, and which of their lanes.
    to_notify: Vec<(Arc<Queue>, usize)>,
    to_wake: Vec<Waker>,
    waker: Option<Waker>,
}

impl CompletionQueue {
    /// A desk that does nothing until [`CompletionQueue::run`] runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves the desk. Spawn it once on the thread whose requests carry this desk.
    pub async fn run(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Leaves a batch's answers, to be handed out on the desk's thread.
    pub(crate) fn deliver(&self, mut deliveries: Vec<Delivery>) {
        let mut state = self.lock();
        if state.deliveries.is_empty() {
            state.deliveries = deliveries;
        } else {
            state.deliveries.append(&mut deliveries);
        }
        wake(state);
    }

    /// Notes that a lane of `queue` has work for an idle instance.
    pub(crate) fn notify_deferred(&self, queue: &Arc<Queue>, lane: usize) {
        let mut state = self.lock();
        if !state.to_notify.iter().any(|(noted, other)| *other == lane && Arc::ptr_eq(noted, queue)) {
            state.to_notify.push((Arc::clone(queue), lane));
        }
        wake(state);
    }

    /// Notes that `waker`'s task, which runs on the desk's thread, has something to read.
    pub(crate) fn wake_deferred(&self, waker: Waker) {
        let mut state = self.lock();
        state.to_wake.push(waker);
        wake(state);
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
        for (queue, lane) in to_notify {
            queue.notify(lane);
        }
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

/// Wakes the desk's task after the lock is gone, so that it does not wait for it.
fn wake(state: MutexGuard<'_, State>) {
    let waker = state.waker.clone();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}
