//! An instance that is a process: its queue, and the source and limits of its processes.

use crate::supervisor::{
    exit_reason::{ExitReason, LoadFailure},
    launch::{Limits, Source},
    pool::ProcessPool,
    process::Process,
};
use penstock_core::{
    ModelSpec,
    queue::{InstanceState, Queue},
};
use std::{sync::Arc, time::Duration};

/// The interval of checks of the process while there is no work.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An instance that is a process, on the server's side.
#[derive(Debug)]
pub struct Instance {
    /// The queue of its model.
    pub queue: Arc<Queue>,
    /// Its index among the model's instances.
    pub index: usize,
    /// The source of its processes.
    pub source: Source,
    /// The limits of its processes.
    pub limits: Arc<Limits>,
    /// The processes of all instances of its model.
    pub pool: Arc<ProcessPool>,
}

impl Instance {
    /// Starts a process and waits until it has loaded.
    pub(crate) fn start(&self) -> Result<Process, LoadFailure> {
        let mut process = self.spawn()?;
        loop {
            if let Some(loaded) = process.poll_loaded(self.source.fingerprint()) {
                return loaded.map(|()| process);
            }
            if self.queue.is_closed() {
                return Err(LoadFailure::new("the server stops"));
            }
            let waited = process.socket.wait(process.pidfd(), POLL_INTERVAL);
            waited.map_err(|error| LoadFailure::new(error.to_string()))?;
        }
    }

    /// Starts a process, which then loads.
    pub(crate) fn spawn(&self) -> Result<Process, LoadFailure> {
        match &self.source {
            Source::Spawn(launch) => Process::spawn(launch, &self.queue.spec().name, self.index),
            Source::Attached(attached) => {
                let channel =
                    attached.take(self.index).ok_or_else(|| LoadFailure::new(ExitReason::Detached.to_string()))?;
                Ok(Process::attached(channel))
            }
        }
    }

    /// Returns whether its process attached itself, so that it cannot be started again.
    pub(crate) fn is_attached(&self) -> bool {
        matches!(self.source, Source::Attached(_))
    }

    /// Its state in reports.
    pub(crate) fn state(&self) -> &InstanceState {
        self.queue.instance(self.index)
    }

    /// Counts a process that was replaced, or could not load again.
    pub(crate) fn count_restart(&self, reason: &'static str) {
        self.queue.metrics().restarted(reason);
        self.state().restarted(reason);
    }

    /// Logs a line.
    pub(crate) fn log(&self, line: std::fmt::Arguments<'_>) {
        log(self.queue.spec(), line);
    }
}

/// Logs a line about a model.
pub(crate) fn log(spec: &ModelSpec, line: std::fmt::Arguments<'_>) {
    eprintln!("penstock: model '{}' version '{}': {line}", spec.name, spec.version);
}
