//! Wake-ups of instances.

use std::{
    fmt,
    sync::{
        Condvar, MutexGuard, OnceLock, PoisonError, Weak,
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
#[derive(Default)]
pub(crate) struct Notify {
    work: Condvar,
    /// Executor that an I/O thread may run instead of a notification.
    inline: OnceLock<Weak<dyn InlineExecutor>>,
    /// Number of notifications, for an instance that spins instead of sleeping.
    count: AtomicUsize,
}

/// Executor of an instance that computes short batches on the thread of their requests.
pub trait InlineExecutor: Send + Sync {
    /// Computes waiting batches, for a bounded time. Returns false if the instance has to be notified: it computes
    /// already, requests are left, or its batches are not short.
    fn compute(&self) -> bool;
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Notify {
    /// Sets the executor for [`Notify::compute_or_notify_one`], once.
    pub(crate) fn set_inline(&self, executor: Weak<dyn InlineExecutor>) {
        let _ = self.inline.set(executor);
    }

    /// Computes the waiting requests on this thread if there is an executor for that, else wakes one instance.
    pub(crate) fn compute_or_notify_one(&self) {
        let executor = self.inline.get().and_then(Weak::upgrade);
        if !executor.is_some_and(|executor| executor.compute()) {
            self.notify_one();
        }
    }

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
