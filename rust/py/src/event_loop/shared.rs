//! What the threads of an async instance share.

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

/// What the feeder has for the loop.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every one is a batch")]
pub(crate) enum Fed {
    /// A batch and its joined inputs.
    Batch(Job, Inputs),
    /// Sequences that are over.
    Over(Vec<SequenceId>),
}

/// What is new for the loop.
#[derive(Debug)]
pub(crate) struct Taken {
    /// In the order in which it came.
    pub(crate) fed: VecDeque<Fed>,
    /// Whether a caller left, or read from a full stream.
    pub(crate) clients_changed: bool,
    /// Whether nothing more will come.
    pub(crate) closed: bool,
}

/// The one place where the feeder, the loop and the watch meet.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bell: Bell,
    /// A caller left, or read from a full stream, since the loop last came.
    clients_changed: AtomicBool,
    state: Mutex<State>,
    /// ResponseHead when a call ended, and when all is over.
    ended: Condvar,
    /// ResponseHead when a call began and the watch sleeps, and when all is over.
    watch: Condvar,
    /// How often the loop has come.
    beats: AtomicU64,
    /// The loop's thread, as Python numbers threads.
    thread: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    fed: VecDeque<Fed>,
    /// Calls that were fed and have not ended.
    running: usize,
    /// Calls that were fed so far.
    begun: u64,
    /// The watch sleeps until a call begins.
    unwatched: bool,
    /// The feeder will feed nothing more.
    closed: bool,
    /// The loop has ended.
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

    /// What rings the loop when a caller leaves or reads.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Waits until fewer than `most` calls run. False when the loop has ended.
    pub(crate) fn wait_for_place(&self, most: usize) -> bool {
        let state = self.lock();
        let full = |state: &mut State| state.running >= most && !state.gone;
        let state = self.ended.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        !state.gone
    }

    /// Leaves a batch, or what else the loop is to know. What the loop cannot take any more is dropped.
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

    /// The feeder ends.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.bell.ring();
    }

    /// What is new since the last time.
    pub(crate) fn take(&self) -> Taken {
        self.beats.fetch_add(1, Ordering::Relaxed);
        self.bell.heard();
        let clients_changed = self.clients_changed.swap(false, Ordering::AcqRel);
        let mut state = self.lock();
        Taken { fed: std::mem::take(&mut state.fed), clients_changed, closed: state.closed }
    }

    /// A call has ended.
    pub(crate) fn ended(&self) {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        drop(state);
        self.ended.notify_all();
    }

    /// The loop ends: nothing will be taken any more.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.gone = true;
        let left = std::mem::take(&mut state.fed);
        drop(state);
        self.ended.notify_all();
        self.watch.notify_all();
        drop(left);
    }

    /// Waits until a call runs, or one has begun since there were `begun` of them, and says how many there are now.
    /// `None` when the loop has ended.
    pub(crate) fn wait_for_call(&self, begun: u64) -> Option<u64> {
        let idle = |state: &mut State| {
            state.unwatched = state.running == 0 && state.begun == begun && !state.gone;
            state.unwatched
        };
        let state = self.watch.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        (!state.gone).then_some(state.begun)
    }

    /// Whether a call runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().running > 0
    }

    /// Waits for so long, or until the loop has ended. False when it has.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let waited = self.watch.wait_timeout_while(self.lock(), time, |state| !state.gone);
        !waited.unwrap_or_else(PoisonError::into_inner).0.gone
    }

    /// The loop runs on this thread.
    pub(crate) fn runs_on(&self, thread: u64) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The loop's thread; 0 before it runs.
    pub(crate) fn thread(&self) -> u64 {
        self.thread.load(Ordering::Relaxed)
    }

    /// Counts how often the loop has come.
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
