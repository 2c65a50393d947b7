//! The server's side of an instance: one thread that pulls batches for a process, and keeps one alive.

use crate::supervisor::{
    exit_reason::{ExitReason, LoadFailure},
    launch::{Limits, Source},
    pool::ProcessPool,
    process::Process,
};
use penstock_core::{ModelSpec, queue::Queue};
use std::{sync::Arc, time::Duration};

/// How often an instance looks after its process while there is no work.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What an instance needs.
#[derive(Debug)]
pub struct Instance {
    /// Where its batches come from.
    pub queue: Arc<Queue>,
    /// Which of the model's instances it is, from 0.
    pub index: usize,
    /// Where its processes come from.
    pub source: Source,
    /// When they are ended.
    pub limits: Arc<Limits>,
    /// Its model's other processes.
    pub fleet: Arc<ProcessPool>,
}

impl Instance {
    /// A process that has loaded.
    pub(crate) fn start(&self) -> Result<Process, LoadFailure> {
        let mut process = self.begin()?;
        loop {
            if let Some(loaded) = process.loaded(self.source.fingerprint()) {
                return loaded.map(|()| process);
            }
            if self.queue.is_closed() {
                return Err(LoadFailure::of("the server stops"));
            }
            let waited = process.socket.wait(process.pidfd(), POLL_INTERVAL);
            waited.map_err(|error| LoadFailure::of(error.to_string()))?;
        }
    }

    /// A process that loads.
    pub(crate) fn begin(&self) -> Result<Process, LoadFailure> {
        match &self.source {
            Source::Start(launch) => Process::start(launch, &self.queue.spec().name, self.index),
            Source::Attached(attached) => {
                let channel = attached.take(self.index).ok_or_else(|| LoadFailure::of(ExitReason::Left.to_string()))?;
                Ok(Process::attached(channel))
            }
        }
    }

    /// Whether there is no other process once this one is gone.
    pub(crate) fn is_attached(&self) -> bool {
        matches!(self.source, Source::Attached(_))
    }

    /// Says something in the log.
    pub(crate) fn say(&self, what: std::fmt::Arguments<'_>) {
        say(self.queue.spec(), what);
    }
}

/// Says something of a model in the log.
pub(crate) fn say(spec: &ModelSpec, what: std::fmt::Arguments<'_>) {
    eprintln!("penstock: model '{}' version '{}': {what}", spec.name, spec.version);
}
