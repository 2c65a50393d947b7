//! State shared by the threads of an async instance.

use crate::wakeup::Bell;
use penstock_core::{Inputs, Job, SequenceId};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Wake, Waker},
    time::Duration,
};

/// An item of the feeder for the loop.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every one is a batch")]
pub(crate) enum Fed {
    /// A batch and its joined inputs.
    Batch(Job, Inputs),
    /// Sequences that have ended.
    Over(Vec<SequenceId>),
}

/// The events for the loop.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The items, in order.
    pub(crate) fed: VecDeque<Fed>,
    /// Set if a client disconnected, or read from a full stream.
    pub(crate) clients_changed: bool,
    /// Set if no further items will come.
    pub(crate) closed: bool,
}

/// The meeting point of the feeder, the loop and the detector.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bell: Bell,
    /// Set if a client disconnected, or read from a full stream, since the last iteration.
    clients_changed: AtomicBool,
    state: Mutex<State>,
    /// Notified when a call has ended, and at the end.
    ended: Condvar,
    /// Notified when a call begins while the detector sleeps, and at the end.
    watch: Condvar,
    /// The number of iterations of the loop.
    beats: AtomicU64,
    /// The loop's thread id in Python.
    thread: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    fed: VecDeque<Fed>,
    /// The calls that have not ended.
    running: usize,
    /// The calls so far.
    begun: u64,
    /// Set while the detector sleeps until a call begins.
    unwatched: bool,
    /// Set once the feeder has ended.
    closed: bool,
    /// Set once the loop has ended.
    gone: bool,
}

impl Shared {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            bell: Bell::new()?,
            clients_changed: AtomicBool::new(false),
            state: Mutex::default(),
            ended: Condvar::new(),
            watch: Condvar::new(),
            beats: AtomicU64::new(0),
            thread: AtomicU64::new(0),
        })
    }

    /// The waker that notifies the loop when a client disconnects or reads.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Waits until fewer than `most` calls run. Returns false when the loop has ended.
    pub(crate) fn wait_for_place(&self, most: usize) -> bool {
        let state = self.lock();
        let full = |state: &mut State| state.running >= most && !state.gone;
        let state = self.ended.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        !state.gone
    }

    /// Adds an item for the loop. Drops it if the loop has ended.
    pub(crate) fn feed(&self, fed: Fed) {
        let mut state = self.lock();
        if state.gone {
            return;
        }
        let is_batch = matches!(fed, Fed::Batch(..));
        state.running += usize::from(is_batch);
        state.begun += u64::from(is_batch);
        state.fed.push_back(fed);
        let wakes = is_batch && std::mem::take(&mut state.unwatched);
        drop(state);
        if wakes {
            self.watch.notify_all();
        }
        self.bell.ring();
    }

    /// Marks the end of the feeder.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.bell.ring();
    }

    /// Takes the events since the last call.
    pub(crate) fn take(&self) -> Taken {
        self.beats.fetch_add(1, Ordering::Relaxed);
        self.bell.heard();
        let clients_changed = self.clients_changed.swap(false, Ordering::AcqRel);
        let mut state = self.lock();
        Taken { fed: std::mem::take(&mut state.fed), clients_changed, closed: state.closed }
    }

    /// Counts a call that has ended.
    pub(crate) fn ended(&self) {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        drop(state);
        self.ended.notify_all();
    }

    /// Marks the end of the loop, and drops the remaining items.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.gone = true;
        let left = std::mem::take(&mut state.fed);
        drop(state);
        self.ended.notify_all();
        self.watch.notify_all();
        drop(left);
    }

    /// Waits until a call runs, or the number of calls exceeds `begun`. Returns that number; `None` once
    /// the loop has ended.
    pub(crate) fn wait_for_call(&self, begun: u64) -> Option<u64> {
        let idle = |state: &mut State| {
            state.unwatched = state.running == 0 && state.begun == begun && !state.gone;
            state.unwatched
        };
        let state = self.watch.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        (!state.gone).then_some(state.begun)
    }

    /// Returns whether a call runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().running > 0
    }

    /// Waits for that time, or until the loop has ended. Returns false when it has.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let waited = self.watch.wait_timeout_while(self.lock(), time, |state| !state.gone);
        !waited.unwrap_or_else(PoisonError::into_inner).0.gone
    }

    /// Sets the loop's thread id.
    pub(crate) fn runs_on(&self, thread: u64) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The loop's thread id; 0 before it runs.
    pub(crate) fn thread(&self) -> u64 {
        self.thread.load(Ordering::Relaxed)
    }

    /// The number of iterations of the loop.
    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.clients_changed.store(true, Ordering::Release);
        self.bell.ring();
    }
}
