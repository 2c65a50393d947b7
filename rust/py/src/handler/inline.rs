//! Inline computation: an I/O thread computes a short batch itself, at the end of its tick.
//!
//! Handing a batch to another thread and back takes two wake-ups, several times the work of a short batch. The model
//! declares that its handler may run on I/O threads (`Threads(inline=True)`). It does so only while its recent batches
//! are short, the wait for the interpreter included. Otherwise the instance's own thread computes, as for other models.

use super::{call, sequences::Sequences};
use crate::{
    attach::{attached, detached},
    definition::HandlerSpec,
};
use penstock_core::{InlineExecutor, Pulled, Work, queue::Queue};
use pyo3::prelude::*;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Average time of recent batches up to which a model is computed inline.
const SHORT: Duration = Duration::from_micros(200);

/// Average before the first batch: some short ones on the instance's own thread come first.
const UNKNOWN: Duration = Duration::from_millis(1);

/// Weight of a new batch in the average: one in so many.
const MEMORY: u32 = 8;

/// Total time of the batches of one tick, after which the instance's thread computes the rest.
const TICK: Duration = Duration::from_micros(400);

/// One instance's handler, for its own thread and the I/O threads: one of them at a time.
pub(crate) struct Inline {
    queue: Arc<Queue>,
    index: usize,
    handler_spec: Arc<HandlerSpec>,
    call: Py<PyAny>,
    turn: Mutex<Turn>,
    freed: Condvar,
}

#[derive(Debug)]
struct Turn {
    taken: bool,
    /// Average time of recent batches.
    average: Duration,
}

impl Inline {
    pub(crate) fn new(queue: Arc<Queue>, index: usize, handler_spec: Arc<HandlerSpec>, call: Py<PyAny>) -> Self {
        let turn = Mutex::new(Turn { taken: false, average: UNKNOWN });
        Self { queue, index, handler_spec, call, turn, freed: Condvar::new() }
    }

    /// Waits for the instance's turn. The caller is detached from the interpreter: an I/O thread whose turn it is may
    /// wait for that.
    pub(crate) fn acquire(&self) {
        let mut turn = self.lock();
        while turn.taken {
            turn = self.freed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        turn.taken = true;
    }

    /// Takes the instance's turn for an I/O thread, if it is free and batches are short.
    fn try_acquire(&self) -> bool {
        let mut turn = self.lock();
        let is_free = !turn.taken && turn.average <= SHORT;
        turn.taken |= is_free;
        is_free
    }

    /// Ends a turn.
    fn release(&self) {
        self.lock().taken = false;
        self.freed.notify_one();
    }

    /// Ends the turn of the instance's thread, after a batch that took `duration`.
    pub(crate) fn finish(&self, duration: Duration) {
        self.record(duration);
        self.release();
    }

    /// Adds the time of a batch to the average.
    fn record(&self, duration: Duration) -> bool {
        let mut turn = self.lock();
        turn.average = turn.average * (MEMORY - 1) / MEMORY + duration / MEMORY;
        turn.average <= SHORT
    }

    /// Computes the next batch, if one can be cut now.
    fn compute_one(&self) -> Option<Duration> {
        let Pulled::Work(Work::Batch(mut job)) = self.queue.next_within(self.index, Duration::ZERO) else {
            return None;
        };
        let start = Instant::now();
        let inputs = job.gather();
        let result = attached(|py| {
            // A model with sequences is not computed inline.
            let mut sequences = Sequences::new(py.None());
            let work = || {
                let handler = self.call.bind(py);
                call::call(handler, &self.handler_spec, &mut sequences, &mut job, inputs, Instant::now())
            };
            catch_unwind(AssertUnwindSafe(work))
        });
        let result = result.unwrap_or_else(|_| Err(call::panicked(&job)));
        job.finish(result);
        Some(start.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InlineExecutor for Inline {
    fn compute(&self) -> bool {
        if !self.try_acquire() {
            return false;
        }
        let start = Instant::now();
        while let Some(duration) = self.compute_one() {
            if !self.record(duration) || start.elapsed() > TICK {
                break;
            }
        }
        self.release();
        // A request that waits for others needs a thread that waits with it.
        !self.queue.has_waiting()
    }
}

/// Runs an I/O thread with a thread state of the interpreter, detached. Otherwise each batch would create one.
pub(crate) fn attachable(run: Box<dyn FnOnce() + Send>) {
    attached(|py| detached(py, run));
}
