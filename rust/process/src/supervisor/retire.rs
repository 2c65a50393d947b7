//! Processes that were replaced: they close their handlers and end, or are ended.

use crate::supervisor::{process::Process, watchdog::CLOSE_WITHIN};
use std::time::{Duration, Instant};

/// Those of one instance.
#[derive(Debug, Default)]
pub(crate) struct Retired(Vec<(Process, Instant)>);

impl Retired {
    /// Asks one to end.
    pub(crate) fn add(&mut self, process: Process) {
        process.stop();
        self.0.push((process, Instant::now() + CLOSE_WITHIN));
    }

    /// Lets go of those that have ended, and ends those that had time enough.
    pub(crate) fn look(&mut self) {
        // What is dropped is killed if it still lives.
        self.0.retain_mut(|(process, until)| process.status().is_none() && Instant::now() < *until);
    }

    /// Waits until all have ended.
    pub(crate) fn wait(&mut self) {
        while !self.0.is_empty() {
            self.look();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
