//! Findings of the monitor, and the heartbeats that it reads.

use super::stall_clock::Subject;
use std::{
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
};

/// Liveness of a server.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    health: Mutex<Health>,
    /// Heartbeats of the I/O threads, once they run with a timeout.
    beats: OnceLock<Box<[AtomicU64]>>,
    /// The thread of the monitor, once it runs.
    monitor: OnceLock<Option<Thread>>,
    ended: AtomicBool,
}

/// Findings of the monitor.
#[derive(Debug, Default)]
struct Health {
    /// Why the server is not live.
    stalled: Option<String>,
    /// Why it is not ready: half of the time has passed.
    suspected: Option<String>,
}

impl Liveness {
    /// Why the server is not live; `None` if it is.
    pub(crate) fn stalled(&self) -> Option<String> {
        self.health().stalled.clone()
    }

    /// Why the server is not ready; `None` if all works.
    pub(crate) fn suspected(&self) -> Option<String> {
        self.health().suspected.clone()
    }

    /// Makes room for the heartbeats of so many I/O threads.
    pub(crate) fn expect_beats(&self, count: usize) {
        self.beats.get_or_init(|| (0..count).map(|_| AtomicU64::new(0)).collect());
    }

    /// Records that an I/O thread runs.
    pub(crate) fn beat(&self, io_thread: usize) {
        if let Some(beats) = self.beats.get().and_then(|beats| beats.get(io_thread)) {
            beats.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the monitor.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        if let Some(Some(monitor)) = self.monitor.get() {
            monitor.unpark();
        }
    }

    /// Starts the monitor if it does not run.
    pub(super) fn start(&self, run: impl FnOnce() + Send + 'static) {
        self.monitor.get_or_init(|| {
            let started = thread::Builder::new().name("penstock-liveness".to_owned()).spawn(run);
            started.ok().map(|monitor| monitor.thread().clone())
        });
    }

    pub(super) fn has_started(&self) -> bool {
        self.monitor.get().is_some()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Sets the findings. Returns whether the server became live or ready, or is not any longer.
    pub(super) fn set(&self, stalled: Option<String>, suspected: Option<String>) -> bool {
        let mut health = self.health();
        let changed =
            health.stalled.is_some() != stalled.is_some() || health.suspected.is_some() != suspected.is_some();
        *health = Health { stalled, suspected };
        changed
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn beats(&self) -> impl Iterator<Item = (Subject, u64)> {
        let beats = self.beats.get().into_iter().flatten().enumerate();
        beats.map(|(index, beat)| (Subject::IoThread(index), beat.load(Ordering::Relaxed)))
    }
}
