//! Wakes the instances of one lane of a queue.

use std::{
    sync::{
        Condvar, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// How long an instance of a model with short batches spins for work before it sleeps.
const SPIN: Duration = Duration::from_micros(50);

/// Wakes the instances of one lane. It holds no lock: waiters sleep under the queue's.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    work: Condvar,
    /// Counts notifications, for an instance that spins instead of sleeping.
    count: AtomicUsize,
}

impl Notify {
    /// Wakes one instance.
    pub(crate) fn notify_one(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.work.notify_one();
    }

    /// Wakes all instances that sleep.
    pub(crate) fn notify_all(&self) {
        self.work.notify_all();
    }

    /// Sleeps until notified, or until the timeout. May wake up early.
    pub(crate) fn sleep<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Option<Duration>) -> MutexGuard<'a, T> {
        match timeout {
            None => self.work.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => self.work.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    /// The notifications so far, to be passed to [`Notify::spin`]. Read under the queue's lock.
    pub(crate) fn seen(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Spins until the next notification after `seen`, but not for long. Yields the core to any other thread.
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
