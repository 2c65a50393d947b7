//! State shared by the threads of an async instance.

use crate::wakeup::LoopWakeup;
use penstock_core::{
    Inputs, Job, SequenceId,
    queue::{InstanceKind, Queue},
};
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
pub(crate) enum Item {
    /// A batch and its joined inputs.
    Batch(Job, Inputs),
    /// Sequences that have ended.
    Over(Vec<SequenceId>),
}

/// The events for the loop.
#[derive(Debug)]
pub(crate) struct Events {
    /// The items, in order.
    pub(crate) items: VecDeque<Item>,
    /// Set if a client disconnected, or read from a full stream.
    pub(crate) clients_changed: bool,
    /// Set if no further items will come.
    pub(crate) closed: bool,
}

/// The meeting point of the feeder, the loop and the detector.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) wakeup: LoopWakeup,
    /// Set if a client disconnected, or read from a full stream, since the last iteration.
    clients_changed: AtomicBool,
    state: Mutex<State>,
    /// Notified when a call has ended, and at the end.
    ended: Condvar,
    /// Notified when a call begins while the detector sleeps, and at the end.
    detector: Condvar,
    /// The number of iterations of the loop.
    iterations: AtomicU64,
    /// The loop's thread id in Python.
    thread: AtomicU64,
    /// Queue and number of the instance.
    instance: (Arc<Queue>, usize),
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    /// The calls that have not ended.
    running: usize,
    /// The calls so far.
    begun: u64,
    /// Set while the detector sleeps until a call begins.
    detector_sleeps: bool,
    /// Set once the feeder has ended.
    closed: bool,
    /// Set once the loop has ended.
    has_ended: bool,
}

impl Shared {
    pub(crate) fn new(queue: Arc<Queue>, index: usize) -> std::io::Result<Self> {
        queue.instance(index).set_kind(InstanceKind::Loop);
        Ok(Self {
            instance: (queue, index),
            wakeup: LoopWakeup::new()?,
            clients_changed: AtomicBool::new(false),
            state: Mutex::default(),
            ended: Condvar::new(),
            detector: Condvar::new(),
            iterations: AtomicU64::new(0),
            thread: AtomicU64::new(0),
        })
    }

    /// The waker that notifies the loop when a client disconnects or reads.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Waits until fewer than `most` calls run. Returns false when the loop has ended.
    pub(crate) fn wait_for_capacity(&self, most: usize) -> bool {
        let state = self.lock();
        let full = |state: &mut State| state.running >= most && !state.has_ended;
        let state = self.ended.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        !state.has_ended
    }

    /// Adds an item for the loop. Drops it if the loop has ended.
    pub(crate) fn push(&self, items: Item) {
        let mut state = self.lock();
        if state.has_ended {
            return;
        }
        let is_batch = matches!(items, Item::Batch(..));
        state.running += usize::from(is_batch);
        state.begun += u64::from(is_batch);
        state.items.push_back(items);
        let wakes = is_batch && std::mem::take(&mut state.detector_sleeps);
        drop(state);
        if wakes {
            self.detector.notify_all();
        }
        self.wakeup.notify();
    }

    /// Marks the end of the feeder.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wakeup.notify();
    }

    /// Takes the events since the last call.
    pub(crate) fn take(&self) -> Events {
        self.iterations.fetch_add(1, Ordering::Relaxed);
        let (queue, index) = &self.instance;
        queue.instance(*index).step();
        self.wakeup.clear();
        let clients_changed = self.clients_changed.swap(false, Ordering::AcqRel);
        let mut state = self.lock();
        Events { items: std::mem::take(&mut state.items), clients_changed, closed: state.closed }
    }

    /// Counts a call that has ended.
    pub(crate) fn ended(&self) {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        drop(state);
        self.ended.notify_all();
    }

    /// Marks the end of the loop, and drops the remaining items.
    pub(crate) fn mark_ended(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        let left = std::mem::take(&mut state.items);
        drop(state);
        self.ended.notify_all();
        self.detector.notify_all();
        drop(left);
    }

    /// Waits until a call runs, or the number of calls exceeds `begun`. Returns that number; `None` once
    /// the loop has ended.
    pub(crate) fn wait_for_call(&self, begun: u64) -> Option<u64> {
        let idle = |state: &mut State| {
            state.detector_sleeps = state.running == 0 && state.begun == begun && !state.has_ended;
            state.detector_sleeps
        };
        let state = self.detector.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        (!state.has_ended).then_some(state.begun)
    }

    /// Returns whether a call runs.
    pub(crate) fn has_calls(&self) -> bool {
        self.lock().running > 0
    }

    /// Waits for that time, or until the loop has ended. Returns false when it has.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let waited = self.detector.wait_timeout_while(self.lock(), time, |state| !state.has_ended);
        !waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    /// Sets the loop's thread id.
    pub(crate) fn set_thread(&self, thread: u64) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The loop's thread id; 0 before it runs.
    pub(crate) fn thread(&self) -> u64 {
        self.thread.load(Ordering::Relaxed)
    }

    /// The number of iterations of the loop.
    pub(crate) fn iterations(&self) -> u64 {
        self.iterations.load(Ordering::Relaxed)
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
        self.wakeup.notify();
    }
}
