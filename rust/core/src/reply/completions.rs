//! One desk per I/O thread, where its traffic with the handler threads is bundled.
//!
//! Waking a task from another thread costs a system call, and so does waking a handler thread. A
//! batch of 32 answers would pay it 32 times. So a handler thread leaves all answers of a batch at
//! the desk and wakes it once; the desk hands them out on the I/O thread, where waking is a push to
//! a local list. The other way round, a request that should wake an idle instance is noted at the
//! desk, which rings once all requests that the socket poll made ready are in the queue: they join
//! one batch, without any added wait.

use super::{Notify, Reply};
use crate::{InferResponse, Result};
use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// An answered request on its way home.
type Delivery = (Reply, Result<InferResponse>);

/// A handle to the desk of one I/O thread.
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

    /// Notes that a lane has work for an idle instance.
    pub(crate) fn notify_deferred(&self, lane: &Arc<Notify>) {
        let mut state = self.lock();
        if !state.to_notify.iter().any(|noted| Arc::ptr_eq(noted, lane)) {
            state.to_notify.push(Arc::clone(lane));
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
        to_notify.iter().for_each(|lane| lane.notify_one());
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

/// Answers of one batch, sorted by the desk that hands them out.
#[derive(Default)]
pub(crate) struct Deliveries {
    by_desk: Vec<(CompletionQueue, Vec<Delivery>)>,
}

impl Deliveries {
    pub(crate) fn push(&mut self, reply: Reply, result: Result<InferResponse>) {
        let Some(desk) = reply.completions() else { return reply.send(result) };
        match self.by_desk.iter_mut().find(|(known, _)| known.is(desk)) {
            Some((_, deliveries)) => deliveries.push((reply, result)),
            None => self.by_desk.push((desk.clone(), vec![(reply, result)])),
        }
    }

    pub(crate) fn send(self) {
        for (desk, deliveries) in self.by_desk {
            desk.deliver(deliveries);
        }
    }
}
