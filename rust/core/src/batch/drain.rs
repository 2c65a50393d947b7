//! Drain rate of a queue: rows answered per second of work, over about the last ten seconds.

use std::time::Duration;

/// Time constant of the decay, in nanoseconds of work.
const MEMORY_NS: f64 = 10e9;

/// Minimum and maximum retry hint.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Measured rate. Times are nanoseconds since the queue was created.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    rows: f64,
    worked_ns: f64,
    /// Start of the work that is not in the sums yet; `None` while idle.
    since_ns: Option<u64>,
}

impl Drain {
    /// Records that there is work.
    pub fn began(&mut self, now_ns: u64) {
        self.since_ns.get_or_insert(now_ns);
    }

    /// Records a batch of `rows`; `idle` if no work is left.
    pub fn answered(&mut self, now_ns: u64, rows: usize, idle: bool) {
        let passed = self.passed(now_ns);
        let kept = (-passed / MEMORY_NS).exp();
        self.rows = self.rows * kept + rows as f64;
        self.worked_ns = self.worked_ns * kept + passed;
        self.since_ns = (!idle).then_some(now_ns);
    }

    /// Rows per second; `None` before the first batch.
    pub fn rate(&self, now_ns: u64) -> Option<f64> {
        let worked = self.worked_ns + self.passed(now_ns);
        (self.rows > 0.0 && worked > 0.0).then(|| self.rows / worked * 1e9)
    }

    /// Retry hint for a refused client, with `waiting_rows` in the queue: 1 to 60 seconds.
    pub fn retry_after(&self, now_ns: u64, waiting_rows: usize) -> Duration {
        let seconds = match self.rate(now_ns) {
            Some(rate) => waiting_rows as f64 / rate,
            // Before the first batch ends, only its duration so far is known.
            None => self.passed(now_ns) / 1e9,
        };
        Duration::from_secs_f64(seconds.min(RETRY.1.as_secs_f64())).clamp(RETRY.0, RETRY.1)
    }

    fn passed(&self, now_ns: u64) -> f64 {
        self.since_ns.map_or(0.0, |since| now_ns.saturating_sub(since) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn drain_rate_counts_busy_time_only() {
        let mut drain = Drain::default();
        assert_eq!(drain.rate(0), None);
        for hour in 1..4 {
            drain.began(hour * 3600 * SECOND);
            drain.began(hour * 3600 * SECOND + SECOND / 2);
            drain.answered((hour * 3600 + 1) * SECOND, 8, true);
        }
        assert!((drain.rate(9 * 3600 * SECOND).unwrap() - 8.0).abs() < 1e-6);
        assert_eq!(drain.retry_after(9 * 3600 * SECOND, 160).as_secs_f64().round(), 20.0);
    }

    #[test]
    fn drain_rate_follows_a_model_that_slows_down_or_hangs() {
        let mut drain = Drain::default();
        drain.began(0);
        (1..=100).for_each(|tenth| drain.answered(tenth * SECOND / 10, 10, false));
        assert!((drain.rate(10 * SECOND).unwrap() - 100.0).abs() < 1.0);
        (1..=30).for_each(|second| drain.answered((10 + second) * SECOND, 10, false));
        assert!((9.0..20.0).contains(&drain.rate(40 * SECOND).unwrap()), "{:?}", drain.rate(40 * SECOND));
        assert!(drain.rate(400 * SECOND).unwrap() < 1.0);
    }

    #[test]
    fn retry_after_is_bounded_and_starts_from_elapsed_time() {
        let mut drain = Drain::default();
        assert_eq!(drain.retry_after(0, 100), RETRY.0);
        drain.began(0);
        assert_eq!(drain.retry_after(5 * SECOND, 100), Duration::from_secs(5));
        assert_eq!(drain.retry_after(500 * SECOND, 100), RETRY.1);
        drain.answered(SECOND, 1, false);
        assert_eq!((drain.retry_after(SECOND, 0), drain.retry_after(SECOND, 1000)), RETRY);
    }
}
