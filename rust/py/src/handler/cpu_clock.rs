//! Processor time of handler calls. Reading a thread's clock is a system call, so of short calls only some are measured.

use penstock_core::metrics::SampledClock;
use rustix::time::{ClockId, clock_gettime};
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

thread_local! {
    static CLOCK: Cell<SampledClock> = const { Cell::new(SampledClock::NEW) };
}

/// Measures one call.
#[derive(Debug)]
pub(crate) struct CallTimer {
    began: Instant,
    /// The thread's clock before the call, if the call is measured.
    cpu: Option<Duration>,
}

/// Times of one call.
#[derive(Debug)]
pub(crate) struct CallTimes {
    pub(crate) ended: Instant,
    pub(crate) duration: Duration,
    /// Processor time of this thread, which excludes waits; at most `duration`.
    pub(crate) cpu: Duration,
}

impl CallTimer {
    pub(crate) fn start() -> Self {
        let cpu = CLOCK.get().is_due().then(thread_time);
        Self { began: Instant::now(), cpu }
    }

    pub(crate) fn stop(self) -> CallTimes {
        let ended = Instant::now();
        let duration = ended - self.began;
        let mut clock = CLOCK.get();
        let cpu = clock.cpu_time(duration, self.cpu, thread_time);
        CLOCK.set(clock);
        CallTimes { ended, duration, cpu }
    }
}

/// The processor time of this thread, which excludes waits.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
