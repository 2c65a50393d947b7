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
pub struct Desk(Arc<Mutex<Trays>>);

#[derive(Debug, Default)]
struct Trays {
    deliveries: Vec<Delivery>,
    /// Queues, and which of their lanes.
    to_ring: Vec<(Arc<Queue>, usize)>,
    to_wake: Vec<Waker>,
    waker: Option<Waker>,
}

impl Desk {
    /// A desk that does nothing until [`Desk::run`] runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves the desk. Spawn it once on the thread whose requests carry this desk.
    pub async fn run(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Leaves a batch's answers, to be handed out on the desk's thread.
    pub(crate) fn deliver(&self, mut deliveries: Vec<Delivery>) {
        let mut trays = self.lock();
        if trays.deliveries.is_empty() {
            trays.deliveries = deliveries;
        } else {
            trays.deliveries.append(&mut deliveries);
        }
        wake(trays);
    }

    /// Notes that a lane of `queue` has work for an idle instance.
    pub(crate) fn ring_later(&self, queue: &Arc<Queue>, lane: usize) {
        let mut trays = self.lock();
        if !trays.to_ring.iter().any(|(noted, other)| *other == lane && Arc::ptr_eq(noted, queue)) {
            trays.to_ring.push((Arc::clone(queue), lane));
        }
        wake(trays);
    }

    /// Notes that `waker`'s task, which runs on the desk's thread, has something to read.
    pub(crate) fn wake_later(&self, waker: Waker) {
        let mut trays = self.lock();
        trays.to_wake.push(waker);
        wake(trays);
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut trays = self.lock();
        let deliveries = std::mem::take(&mut trays.deliveries);
        let to_ring = std::mem::take(&mut trays.to_ring);
        let to_wake = std::mem::take(&mut trays.to_wake);
        if !trays.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            trays.waker = Some(cx.waker().clone());
        }
        drop(trays);
        for (queue, lane) in to_ring {
            queue.ring(lane);
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

    fn lock(&self) -> MutexGuard<'_, Trays> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the desk's task after the lock is gone, so that it does not wait for it.
fn wake(trays: MutexGuard<'_, Trays>) {
    let waker = trays.waker.clone();
    drop(trays);
    if let Some(waker) = waker {
        waker.wake();
    }
}
