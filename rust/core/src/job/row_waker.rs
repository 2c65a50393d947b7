//! Wakes an iterative model's instance whose rows all wait for their clients.

use crate::queue::Queue;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

/// Waker of one instance: it waits on its thread, or in its queue if requests may join.
#[derive(Debug)]
pub(super) struct RowWaker {
    queue: Arc<Queue>,
    instance: usize,
    thread: Thread,
    /// Set while the instance waits: without it a wake-up is one read.
    armed: AtomicBool,
}

impl RowWaker {
    /// A waker of the calling thread.
    pub(super) fn new(queue: Arc<Queue>, instance: usize) -> Arc<Self> {
        Arc::new(Self { queue, instance, thread: thread::current(), armed: AtomicBool::new(false) })
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Comes before the last check of what the wait is for.
    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    pub(super) fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }

    /// Waits on the thread. May return early.
    pub(super) fn wait(&self, patience: Duration) {
        if self.armed.load(Ordering::SeqCst) {
            thread::park_timeout(patience);
        }
    }
}

impl Wake for RowWaker {
    fn wake(self: Arc<Self>) {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
            self.queue.interrupt(self.instance);
        }
    }
}
