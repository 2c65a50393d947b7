//! Wake-ups of instances.

use std::{
    sync::{
        Condvar, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Maximum time an instance spins for work before it sleeps, for models with short batches.
const SPIN: Duration = Duration::from_micros(50);

/// Wakes the instances of one lane, like tokio's `Notify`.
///
/// It has no lock and no memory: a notification without a waiter is lost. That is safe for two reasons. An instance
/// checks the queue and begins to sleep under the queue's lock. Every change of the queue is followed by a
/// notification, if an instance sleeps. `docs/internals-queue.md` draws the protocol.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    work: Condvar,
    /// Number of notifications, for an instance that spins instead of sleeping.
    count: AtomicUsize,
}

impl Notify {
    /// Wakes one instance.
    pub(crate) fn notify_one(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.work.notify_one();
    }

    /// Wakes all sleeping instances.
    pub(crate) fn notify_all(&self) {
        self.work.notify_all();
    }

    /// Sleeps until notified, or until the timeout. Wakes up spuriously at times.
    pub(crate) fn sleep<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Option<Duration>) -> MutexGuard<'a, T> {
        match timeout {
            None => self.work.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => self.work.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    /// Number of notifications, to be passed to [`Notify::spin`]. Read under the queue's lock.
    pub(crate) fn seen(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Spins until the next notification after `seen`, for a bounded time. Yields the core to any other thread.
    pub(crate) fn spin(&self, seen: usize) {
        let end = Instant::now() + SPIN;
        while self.seen() == seen && Instant::now() < end {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }
}
