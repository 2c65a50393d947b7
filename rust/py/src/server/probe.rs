//! Probe of the interpreter: a thread that takes it each second and measures the wait.
//!
//! It runs with a `stall_timeout` only. The monitor of the server reads how long a wait lasts, without the interpreter.

use crate::attach::try_attached;
use penstock_core::{Registry, metrics::Metrics};
use penstock_server::{InterpreterProbe, StallSettings};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The interval of probes without requests.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// The running probe of a server. Dropping it ends the thread, without a wait for it.
#[derive(Debug)]
pub(super) struct ProbeThread {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl ProbeThread {
    /// Starts the thread.
    pub(super) fn spawn(
        timeout: Duration,
        probe: Arc<InterpreterProbe>,
        registry: Arc<Registry>,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ended);
        let interval = StallSettings::interval(timeout);
        let run = move || {
            let mut last = Instant::now();
            while !has_ended.load(Ordering::Acquire) {
                thread::park_timeout(interval);
                let is_busy = || registry.all().iter().any(|model| model.metrics().in_flight.get() > 0);
                if has_ended.load(Ordering::Acquire) || (last.elapsed() < IDLE_INTERVAL && !is_busy()) {
                    continue;
                }
                last = Instant::now();
                probe.begin();
                let taken = try_attached(|_| last.elapsed());
                probe.end();
                match taken {
                    Some(wait) => metrics.stalls.interpreter_wait.observe(wait.as_secs_f64()),
                    // The interpreter ends.
                    None => return,
                }
            }
        };
        let thread = thread::Builder::new().name("penstock-probe".to_owned()).spawn(run)?;
        Ok(Self { ended, thread })
    }

    /// Ends the thread and waits for it. The caller is detached from the interpreter.
    pub(super) fn end(self) {
        self.signal_end();
        while !self.thread.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal_end(&self) {
        self.ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
    }
}

impl Drop for ProbeThread {
    fn drop(&mut self) {
        self.signal_end();
    }
}
