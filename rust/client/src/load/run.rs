//! A run: threads that warm up, wait, and measure.

use super::{
    arrivals::Part,
    phase::Phase,
    plan::LoadPlan,
    prepared::{Endpoint, prepare},
    shard::Shard,
    tally::{Measured, Tally},
};
use crate::{Client, Mode, connector::Connector};
use penstock_core::{Error, Kind, Result};
use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// A load under way.
pub struct LoadRun {
    shards: Vec<Arc<Shard>>,
    control: Arc<Control>,
    go: watch::Sender<Go>,
    threads: Vec<JoinHandle<()>>,
    duration: Option<Duration>,
}

/// Signal to the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// Warm up, then wait.
    Warmup,
    /// Measure; the measurement began then.
    Measure(Instant),
}

/// Requests so far in the phase under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Successful responses.
    pub succeeded: u64,
    /// Errors.
    pub failed: u64,
}

/// State that threads report, and the signal to stop.
#[derive(Debug, Default)]
pub(super) struct Control {
    stopped: Arc<AtomicBool>,
    threads: Mutex<Threads>,
    changed: Condvar,
}

/// Threads by state.
#[derive(Debug, Default)]
struct Threads {
    warm: usize,
    ended: usize,
    /// End of the last one.
    end: Option<Instant>,
    error: Option<String>,
}

impl Control {
    pub(super) fn stopped(&self) -> &Arc<AtomicBool> {
        &self.stopped
    }

    /// Reports that a thread's warm-up is over.
    pub(super) fn warm(&self) {
        self.report(|threads| threads.warm += 1);
    }

    fn report(&self, change: impl FnOnce(&mut Threads)) {
        change(&mut self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn wait(&self, at_most: Duration, until: impl Fn(&Threads) -> bool) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(threads, at_most, |threads| !until(threads));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl LoadRun {
    /// Encodes the requests and starts the threads, which connect and warm up.
    ///
    /// # Errors
    /// `InvalidInput` for numbers out of range, and for requests or options that cannot be sent.
    pub fn start(plan: LoadPlan) -> Result<Self> {
        plan.check()?;
        // Checks the headers.
        Client::new(Mode::Async, plan.target.clone(), plan.options.clone())?;
        let connector = Arc::new(Connector::new(Mode::Async, &plan.target, &plan.options)?);
        let requests = prepare(&plan, &connector).map_err(|failure| failure.error)?;
        let (plan, control) = (Arc::new(plan), Arc::new(Control::default()));
        let (go, receiver) = watch::channel(Go::Warmup);
        let count = plan.threads_used();
        let shards: Vec<Arc<Shard>> = (0..count)
            .map(|index| {
                let phase = Phase::new(Instant::now(), None, Some(0), control.stopped());
                Arc::new(Shard {
                    part: Part { index, threads: count },
                    plan: Arc::clone(&plan),
                    endpoint: Arc::new(Endpoint::new(&plan, &connector, &requests)),
                    control: Arc::clone(&control),
                    phase: Mutex::new(Arc::new(phase)),
                })
            })
            .collect();
        let mut run = Self { shards, control, go, threads: Vec::new(), duration: plan.duration };
        for (index, shard) in run.shards.iter().enumerate() {
            let (shard, receiver) = (Arc::clone(shard), receiver.clone());
            let thread = Builder::new().name(format!("penstock-load-{index}")).spawn(move || {
                // A thread that did not report its end would be waited for.
                let done = catch_unwind(AssertUnwindSafe(|| shard.run(receiver)));
                let done = done.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
                shard.control.report(|threads| {
                    threads.ended += 1;
                    match done {
                        Ok(end) => threads.end = threads.end.max(Some(end)),
                        Err(error) => threads.error = Some(error.to_string()),
                    }
                });
            });
            // On an error the threads before it end, since the run is dropped.
            run.threads.push(thread.map_err(|error| failed(&error.to_string()))?);
        }
        Ok(run)
    }

    /// Waits for the end of the warm-up. Returns false if it is not over after `at_most`.
    pub fn wait_warm(&self, at_most: Duration) -> bool {
        self.control.wait(at_most, |threads| threads.warm.max(threads.ended) >= self.threads.len())
    }

    /// Begins the measurement. No request is in flight at this moment if the warm-up is over.
    pub fn measure(&self) {
        self.go.send_replace(Go::Measure(Instant::now()));
    }

    /// Waits for the end of the measurement and of its requests. Returns false if it is not over after `at_most`.
    pub fn wait(&self, at_most: Duration) -> bool {
        self.control.wait(at_most, |threads| threads.ended >= self.threads.len())
    }

    /// Ends the phase under way. Requests in flight finish.
    pub fn stop(&self) {
        self.control.stopped.store(true, Ordering::Relaxed);
    }

    /// Requests so far in the phase under way.
    pub fn progress(&self) -> Progress {
        self.shards.iter().fold(Progress::default(), |sum, shard| {
            let (succeeded, failed) = shard.current().tally(|tally| tally.completed());
            Progress { succeeded: sum.succeeded + succeeded, failed: sum.failed + failed }
        })
    }

    /// The result, once [`wait`](Self::wait) has returned true.
    ///
    /// # Errors
    /// `Internal`: a thread failed, or the measurement did not begin.
    pub fn measured(&self) -> Result<Measured> {
        let threads = self.control.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &threads.error {
            return Err(failed(error));
        }
        let (Go::Measure(start), Some(end)) = (*self.go.borrow(), threads.end) else {
            return Err(failed("it did not measure"));
        };
        let mut sum = Tally::default();
        for shard in &self.shards {
            shard.current().tally(|tally| sum.merge(tally));
        }
        let elapsed = end.saturating_duration_since(start);
        Ok(sum.measured(self.duration.map_or(elapsed, |duration| duration.min(elapsed))))
    }
}

impl Drop for LoadRun {
    fn drop(&mut self) {
        // Threads that wait for the measurement end with the sender; others after their requests in flight.
        self.stop();
    }
}

impl fmt::Debug for LoadRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadRun").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

fn failed(why: &str) -> Error {
    Error::new(Kind::Internal, format!("the load generator failed: {why}"))
}
