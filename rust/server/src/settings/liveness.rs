//! Watch over the progress of work, and the reader of stacks.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Reads the stacks of all threads of a process. The error is for the client.
pub type ReadStacks = fn(u32) -> Result<String, String>;

/// Watch over the progress of work.
#[derive(Clone, Debug, Default)]
pub struct StallSettings {
    /// Time without progress after which the server is not live; `None` is off. Models may have others.
    pub timeout: Option<Duration>,
    /// Probe of the interpreter; `None` for none.
    pub interpreter: Option<Arc<InterpreterProbe>>,
}

impl StallSettings {
    /// A watch with this timeout, and a probe of the interpreter if there is one.
    pub fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, interpreter: timeout.map(|_| Arc::default()) }
    }

    /// Interval of probes and heartbeats with this timeout.
    pub fn interval(timeout: Duration) -> Duration {
        (timeout / 8).clamp(Duration::from_millis(50), Duration::from_secs(1))
    }
}

/// State of a thread that takes the interpreter again and again. Its monitor never waits for the interpreter.
#[derive(Debug, Default)]
pub struct InterpreterProbe {
    /// Number of begun and of ended waits together: odd during a wait.
    events: AtomicU64,
}

impl InterpreterProbe {
    /// Records that a wait begins.
    pub fn begin(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the interpreter was taken.
    pub fn end(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of the wait under way; `None` if there is none.
    pub(crate) fn waiting(&self) -> Option<u64> {
        let events = self.events.load(Ordering::Relaxed);
        (events % 2 == 1).then_some(events)
    }
}

/// The reader of a server without an interpreter.
pub(crate) fn no_stacks(_: u32) -> Result<String, String> {
    Err(format!("stacks: process {} has no interpreter", process::id()))
}
