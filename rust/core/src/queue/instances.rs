//! State of each instance of a model, for reports: written by the instance's thread, without a lock for batches.

use super::{Queue, lane::Lane};
use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
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
    /// Pieces of streams, and steps of the event loop while it has batches.
    steps: AtomicU64,
    /// An [`InstanceKind`].
    kind: AtomicU8,
    /// Set while a stream waits for a client that does not read.
    waits_for_client: AtomicBool,
    /// Set to end a wait for requests that join.
    interrupted: AtomicBool,
    process: Mutex<InstanceProcess>,
}

/// Executor of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceKind {
    /// A thread.
    Thread,
    /// An event loop.
    Loop,
    /// A process, which is replaced if it hangs.
    Process,
}

/// Kind of progress that a busy instance makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It ends batches.
    Batch,
    /// It sends pieces of streams.
    Stream,
    /// Its event loop runs.
    Loop,
    /// It makes steps of its rows.
    Step,
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

    /// Sets its executor; a thread by default.
    pub fn set_kind(&self, kind: InstanceKind) {
        self.kind.store(kind as u8, Ordering::Relaxed);
    }

    fn is(&self, kind: InstanceKind) -> bool {
        self.kind.load(Ordering::Relaxed) == kind as u8
    }

    /// Counts a step of the event loop, or a piece of a stream.
    pub fn step(&self) {
        // Only the instance's thread writes.
        self.steps.store(self.steps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts a step of an iterative model, of so many rows.
    pub(crate) fn step_of(&self, rows: usize) {
        self.rows.store(u32::try_from(rows).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.step();
    }

    /// Records whether the instance waits for a client of a stream.
    pub(crate) fn set_waits_for_client(&self, waits: bool) {
        self.waits_for_client.store(waits, Ordering::Relaxed);
    }

    /// Ends the wait of [`Queue::wait_to_join`], or the next one.
    pub(super) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
    }

    pub(super) fn take_interrupt(&self) -> bool {
        self.interrupted.swap(false, Ordering::AcqRel)
    }

    /// A number that changes with any progress; `None` while nothing has to happen.
    fn progress(&self) -> Option<u64> {
        let is_busy = self.running.load(Ordering::Relaxed) > 0 && !self.waits_for_client.load(Ordering::Relaxed);
        let is_busy = is_busy && !self.is(InstanceKind::Process);
        is_busy.then(|| self.batches.load(Ordering::Relaxed).wrapping_add(self.steps.load(Ordering::Relaxed)))
    }

    /// Records the start of a batch, and returns the nanoseconds without one before it.
    pub(super) fn begin(&self, now_ns: u64, rows: usize) -> u64 {
        self.rows.store(u32::try_from(rows).unwrap_or(u32::MAX), Ordering::Relaxed);
        // Only the thread that takes batches writes it while none runs.
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
        let running = self.running.fetch_add(1, Ordering::Relaxed);
        if running == 0 { now_ns.saturating_sub(since_ns) } else { 0 }
    }

    pub(super) fn end(&self, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == InstancePhase::Ended as u8
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

    /// Of each instance a number that changes with any progress, or `None` while nothing has to happen and for a
    /// process.
    pub fn progress(&self) -> Vec<(Option<u64>, Activity)> {
        let activity = |instance: &InstanceState| match (instance.is(InstanceKind::Loop), self.spec.streams) {
            _ if self.spec.iterative.is_some() => Activity::Step,
            (true, _) => Activity::Loop,
            (false, true) => Activity::Stream,
            (false, false) => Activity::Batch,
        };
        self.instances.iter().map(|instance| (instance.progress(), activity(instance))).collect()
    }

    /// The number of batches cut so far, while requests wait and an instance is parked that could take them; else
    /// `None`. A lane that waits for resources of other models is left out, and so is a model with sequences, where a
    /// request may wait for the one before it.
    pub fn unserved(&self) -> Option<u64> {
        if self.spec.sequences.is_some() {
            return None;
        }
        let inner = self.lock();
        let is_unserved = |lane: &Lane| !lane.waiting.is_empty() && lane.parked > 0 && !lane.waits_for_resources;
        inner.lanes.iter().any(is_unserved).then(|| {
            let cut = |instance: &InstanceState| {
                instance.batches.load(Ordering::Relaxed).wrapping_add(instance.running.load(Ordering::Relaxed).into())
            };
            self.instances.iter().map(cut).fold(0, u64::wrapping_add)
        })
    }

    /// Returns the number of instances that have a batch, and of all that have not ended.
    pub fn busy_instances(&self) -> (usize, usize) {
        let serving = || self.instances.iter().filter(|instance| !instance.has_ended());
        (serving().filter(|instance| instance.running.load(Ordering::Relaxed) > 0).count(), serving().count())
    }

    /// Records that an instance begins a batch, cut at a time since the queue's epoch. Returns how long it had none.
    pub(crate) fn begin_batch(&self, instance: usize, cut_ns: u64, rows: usize) -> Duration {
        Duration::from_nanos(self.instance(instance).begin(cut_ns, rows))
    }
}
