//! Times of an open loop's requests.

use super::plan::{Arrivals, OpenLoad};
use std::time::{Duration, Instant};

/// The times of one thread's requests, in order. A copy has the same ones.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    window: Window,
    /// Times taken.
    count: u64,
    /// Seconds from the start of the window: the first time, and the next one.
    first: f64,
    next: f64,
    interval: f64,
    draws: Option<Draws>,
}

/// Limits of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) start: Instant,
    /// Not included.
    pub(super) end: Option<Instant>,
    /// Maximum of times.
    pub(super) limit: u64,
}

/// The thread's part of the rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) index: usize,
    pub(super) threads: usize,
}

impl Schedule {
    /// The times of the thread's part of a load.
    pub(super) fn new(load: &OpenLoad, part: Part, window: Window) -> Self {
        // Parts have different seeds.
        let seed = load.seed.wrapping_mul(256).wrapping_add(part.index as u64);
        let mut draws = (load.arrivals == Arrivals::Poisson).then_some(Draws(seed));
        let interval = part.threads as f64 / load.rate;
        let first = match &mut draws {
            Some(draws) => draws.exponential() * interval,
            None => part.index as f64 / load.rate,
        };
        Self { window, count: 0, first, next: first, interval, draws }
    }

    /// The next time; `None` at the end.
    pub(super) fn peek(&self) -> Option<Instant> {
        let at = self.window.start.checked_add(Duration::try_from_secs_f64(self.next).ok()?)?;
        (self.count < self.window.limit && self.window.end.is_none_or(|end| at < end)).then_some(at)
    }

    /// Takes the next time.
    pub(super) fn take(&mut self) -> Option<Instant> {
        let at = self.peek()?;
        self.count += 1;
        self.next = match &mut self.draws {
            Some(draws) => self.next + draws.exponential() * self.interval,
            // Not by additions, whose errors add up.
            None => self.first + self.count as f64 * self.interval,
        };
        Some(at)
    }
}

/// Pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
struct Draws(u64);

impl Draws {
    /// Exponentially distributed with mean 1.
    fn exponential(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - uniform).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, seed: u64, part: Part, limit: u64) -> Vec<Duration> {
        let start = Instant::now();
        let window = Window { start, end: Some(start + Duration::from_secs(1000)), limit };
        let load = OpenLoad { rate: 1000.0, arrivals, max_in_flight: 1, seed };
        let mut schedule = Schedule::new(&load, part, window);
        std::iter::from_fn(|| schedule.take()).map(|at| at - start).collect()
    }

    #[test]
    fn threads_share_a_constant_rate_in_turn() {
        let part = |index| times(Arrivals::Constant, 0, Part { index, threads: 2 }, 500_000);
        let mut both = [part(0), part(1)].concat();
        both.sort();
        assert_eq!(both.len(), 1_000_000);
        for (index, at) in both.iter().enumerate() {
            assert!(at.abs_diff(Duration::from_millis(index as u64)) < Duration::from_micros(1), "{index}: {at:?}");
        }
        // The end is not included.
        assert_eq!(times(Arrivals::Constant, 0, Part { index: 0, threads: 1 }, u64::MAX).len(), 1_000_000);
    }

    #[test]
    fn poisson_intervals_have_the_mean_and_the_deviation_of_the_rate() {
        let all = times(Arrivals::Poisson, 7, Part { index: 0, threads: 1 }, 100_000);
        let intervals: Vec<f64> = all.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1000.0).collect();
        let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
        let variance = intervals.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / intervals.len() as f64;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        assert_eq!(all, times(Arrivals::Poisson, 7, Part { index: 0, threads: 1 }, 100_000));
        assert_ne!(all, times(Arrivals::Poisson, 8, Part { index: 0, threads: 1 }, 100_000));
        assert_ne!(all, times(Arrivals::Poisson, 7, Part { index: 1, threads: 2 }, 100_000));
    }
}
