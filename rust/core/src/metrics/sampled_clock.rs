//! When the processor time of a call is read from the thread's clock, which is a system call.

use std::time::Duration;

/// Time of a call up to which it may take the share of the last measured call.
const SHORT: Duration = Duration::from_micros(100);

/// Of successive short calls of a thread, one in so many is measured.
const EVERY: u32 = 16;

/// Processor times of a thread's calls. Of short calls only some are measured; long ones all are.
#[derive(Clone, Copy, Debug)]
pub struct SampledClock {
    /// Number of calls that need no measurement yet.
    unmeasured: u32,
    /// Processor time by duration of the last measured call.
    share: f64,
    /// Last reading of the thread's clock.
    read: Duration,
}

impl SampledClock {
    /// The state of a thread before its first call.
    pub const NEW: Self = Self { unmeasured: 0, share: 1.0, read: Duration::ZERO };

    /// True if the clock is to be read before the next call.
    pub const fn is_due(&self) -> bool {
        self.unmeasured == 0
    }

    /// Returns the processor time of a call, at most `duration`. `before` is the clock at its start, if it was read;
    /// `clock` reads it.
    pub fn cpu_time(
        &mut self,
        duration: Duration,
        before: Option<Duration>,
        clock: impl FnOnce() -> Duration,
    ) -> Duration {
        if before.is_none() && duration <= SHORT {
            self.unmeasured = self.unmeasured.saturating_sub(1);
            return duration.mul_f64(self.share);
        }
        // A long call that was not measured counts from the last reading: it exceeds its own time by at most what the
        // few short calls before it took.
        let (began, read) = (before.unwrap_or(self.read), clock());
        let cpu = read.saturating_sub(began).min(duration);
        self.read = read;
        self.unmeasured = if duration <= SHORT { EVERY - 1 } else { 0 };
        if !duration.is_zero() {
            self.share = cpu.as_secs_f64() / duration.as_secs_f64();
        }
        cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn unread() -> Duration {
        panic!("the clock is not read for this call")
    }

    #[test]
    fn short_calls_take_the_share_of_the_measured_one() {
        let mut clock = SampledClock::NEW;
        assert_eq!(clock.cpu_time(us(40), Some(us(100)), || us(110)), us(10));
        for _ in 1..EVERY {
            assert!(!clock.is_due());
            assert_eq!(clock.cpu_time(us(20), None, unread), us(5));
        }
        assert!(clock.is_due(), "one in {EVERY} is measured");
    }

    #[test]
    fn long_calls_are_measured_each() {
        let mut clock = SampledClock::NEW;
        for _ in 0..3 {
            assert_eq!(clock.cpu_time(us(1_000), Some(us(0)), || us(300)), us(300));
            assert!(clock.is_due());
        }
    }

    #[test]
    fn long_call_after_short_ones_counts_from_the_last_reading() {
        let mut clock = SampledClock::NEW;
        clock.cpu_time(us(10), Some(us(90)), || us(100));
        // It waited: of 10 milliseconds the thread computed 50 microseconds, those of other short calls included.
        assert_eq!(clock.cpu_time(us(10_000), None, || us(150)), us(50));
        assert!(clock.is_due());
    }
}
