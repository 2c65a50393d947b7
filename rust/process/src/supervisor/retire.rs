//! Replaced processes, which close their handlers and exit, or are killed.

use crate::supervisor::{process::Process, watchdog::CLOSE_TIMEOUT};
use std::time::{Duration, Instant};

/// The replaced processes of one instance.
#[derive(Debug, Default)]
pub(crate) struct Retired(Vec<(Process, Instant)>);

impl Retired {
    /// Sends a process the command to stop.
    pub(crate) fn add(&mut self, process: Process) {
        process.stop();
        self.0.push((process, Instant::now() + CLOSE_TIMEOUT));
    }

    /// Drops processes that have ended, and kills those whose time is over.
    pub(crate) fn sweep(&mut self) {
        // A process that is dropped alive is killed.
        self.0.retain_mut(|(process, until)| process.status().is_none() && Instant::now() < *until);
    }

    /// Waits until all have ended.
    pub(crate) fn wait(&mut self) {
        while !self.0.is_empty() {
            self.sweep();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
