//! State of each instance of a model, for reports: written by the instance's thread, without a lock for batches.

use super::Queue;
use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Phase of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstancePhase {
    /// Its handler is being built, or its process loads.
    Loading,
    /// Takes batches.
    Serving,
    /// Its process ended, and the next one starts after a delay.
    BackingOff,
    /// Takes no batches again.
    Ended,
}

/// State of one instance. Times are in nanoseconds since the queue's epoch.
#[derive(Debug, Default)]
pub struct InstanceState {
    phase: AtomicU8,
    /// Batches in computation; an event loop has several.
    running: AtomicU32,
    /// Rows of the last batch.
    rows: AtomicU32,
    /// Start of the last batch, or end of the last one where none runs.
    since_ns: AtomicU64,
    batches: AtomicU64,
    process: Mutex<InstanceProcess>,
}

/// Process of an instance.
#[derive(Clone, Copy, Debug, Default)]
pub struct InstanceProcess {
    /// Process number, if the server started it and it lives.
    pub id: Option<u32>,
    /// Time at which it had loaded.
    pub loaded: Option<Instant>,
    /// Processes that were replaced, or could not load again.
    pub restarts: u64,
    /// Reason of the last restart, as in the metric of restarts.
    pub reason: Option<&'static str>,
}

/// State of one instance at one moment.
#[derive(Clone, Copy, Debug)]
pub struct InstanceReport {
    /// Phase.
    pub phase: InstancePhase,
    /// Batches in computation.
    pub running: u32,
    /// Rows of the last batch.
    pub rows: u32,
    /// Time since the start of the last batch, or since its end where none runs.
    pub since: Duration,
    /// Batches computed.
    pub batches: u64,
    /// Its process; empty for a thread.
    pub process: InstanceProcess,
}

impl InstanceState {
    /// Sets the phase.
    pub fn set_phase(&self, phase: InstancePhase) {
        // A store of the same value would take the line from readers on other cores.
        if self.phase.load(Ordering::Relaxed) != phase as u8 {
            self.phase.store(phase as u8, Ordering::Relaxed);
        }
    }

    /// Records that a process has loaded.
    pub fn process_loaded(&self, id: Option<u32>) {
        let mut process = self.process();
        (process.id, process.loaded) = (id, Some(Instant::now()));
    }

    /// Records the end of a process.
    pub fn process_ended(&self) {
        let mut process = self.process();
        (process.id, process.loaded) = (None, None);
    }

    /// Counts a restart.
    pub fn restarted(&self, reason: &'static str) {
        let mut process = self.process();
        (process.restarts, process.reason) = (process.restarts + 1, Some(reason));
    }

    pub(super) fn begin(&self, now_ns: u64, rows: usize) {
        self.rows.store(u32::try_from(rows).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    fn report(&self, now_ns: u64) -> InstanceReport {
        let phase = match self.phase.load(Ordering::Relaxed) {
            phase if phase == InstancePhase::Loading as u8 => InstancePhase::Loading,
            phase if phase == InstancePhase::Serving as u8 => InstancePhase::Serving,
            phase if phase == InstancePhase::BackingOff as u8 => InstancePhase::BackingOff,
            _ => InstancePhase::Ended,
        };
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        InstanceReport {
            phase,
            running: self.running.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            since: Duration::from_nanos(now_ns.saturating_sub(since_ns)),
            batches: self.batches.load(Ordering::Relaxed),
            process: *self.process(),
        }
    }

    fn process(&self) -> MutexGuard<'_, InstanceProcess> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// State of an instance, counted from 0; of the last one for a larger number.
    pub fn instance(&self, instance: usize) -> &InstanceState {
        &self.instances[instance.min(self.instances.len() - 1)]
    }

    /// States of all instances.
    pub fn instance_reports(&self) -> Vec<InstanceReport> {
        let now_ns = self.now_ns();
        self.instances.iter().map(|instance| instance.report(now_ns)).collect()
    }

    /// Records that an instance begins a batch, cut at a time since the queue's epoch.
    pub(crate) fn begin_batch(&self, instance: usize, cut_ns: u64, rows: usize) {
        self.instance(instance).begin(cut_ns, rows);
    }
}
