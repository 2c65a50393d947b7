//! Detector of handlers that block their event loop, which logs the line of code.

use super::shared::Shared;
use crate::attach::attached;
use pyo3::prelude::*;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// The time without an iteration after which a loop counts as blocked.
const BLOCKED_AFTER: Duration = Duration::from_millis(100);

/// The interval of checks whether a blocked loop continues.
const LOOK: Duration = Duration::from_millis(10);

/// Watches the loop while calls run. Ends with it.
///
/// It checks at an interval while calls come, because a wake-up for each call would slow it down. So it always detects
/// a loop that is blocked for twice the time, and one that was idle before at once.
pub(crate) fn spawn(model: Arc<str>, shared: Arc<Shared>) -> std::io::Result<thread::JoinHandle<()>> {
    let watch = move || {
        let mut begun = 0;
        while let Some(now) = shared.wait_for_call(begun) {
            begun = now;
            let (iterations, start) = (shared.iterations(), Instant::now());
            let busy = shared.has_calls();
            if busy {
                shared.wakeup.notify();
            }
            if !shared.pause(BLOCKED_AFTER) {
                return;
            }
            if busy && shared.iterations() == iterations {
                attached(|py| report(py, &model, &shared, iterations, start));
                while shared.iterations() == iterations && shared.pause(LOOK) {}
            }
        }
    };
    thread::Builder::new().name("penstock-watch".to_owned()).spawn(watch)
}

/// Logs the current line of the loop's thread, unless the loop continued before this thread was attached.
fn report(py: Python<'_>, model: &str, shared: &Shared, iterations: u64, start: Instant) {
    if shared.iterations() != iterations {
        return;
    }
    let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let reported = py
        .import("penstock._runtime.event_loop")
        .and_then(|module| module.call_method1("report_blocked", (model, shared.thread(), milliseconds)));
    if let Err(error) = reported {
        error.print(py);
    }
}
