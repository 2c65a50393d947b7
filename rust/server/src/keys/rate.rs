//! Rate of requests: the generic cell rate algorithm (GCRA), which is a token bucket in one number.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Nanoseconds of the units of a rate.
const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("m", 60_000_000_000), ("h", 3_600_000_000_000)];

/// The start of all times.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Limit of a rate, and its use.
#[derive(Debug)]
pub(super) struct Rate {
    text: Box<str>,
    /// Nanoseconds of one request.
    interval: u64,
    /// Nanoseconds of the requests that may come at once.
    burst: u64,
    /// The time, in nanoseconds, by which all requests so far would have come at the rate.
    due: AtomicU64,
}

impl Rate {
    /// Parses a rate such as `100/s`. Without a burst, the requests of one second may come at once.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn parse(text: &str, burst: Option<u64>) -> Result<Self, String> {
        let wrong = || format!("rate '{text}' is not a number of requests in a time, such as 100/s, 60/m or 10/h");
        let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
        let count: u64 = count.parse().map_err(|_| wrong())?;
        let unit = UNITS.iter().find_map(|(name, nanoseconds)| (*name == unit).then_some(*nanoseconds));
        let unit = unit.ok_or_else(wrong)?;
        if count == 0 || count > unit {
            return Err(wrong());
        }
        let interval = unit / count;
        let burst = burst.unwrap_or_else(|| (UNITS[0].1 / interval).max(1));
        let burst = burst.checked_mul(interval).filter(|burst| *burst > 0).ok_or("burst: expected 1 or more")?;
        Ok(Self { text: text.into(), interval, burst, due: AtomicU64::new(0) })
    }

    /// The rate as it is configured.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Reports whether another limit is the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.interval, self.burst) == (other.interval, other.burst)
    }

    /// Copies the limit, without its use.
    pub(super) fn unused(&self) -> Self {
        let Self { ref text, interval, burst, .. } = *self;
        Self { text: text.clone(), interval, burst, due: AtomicU64::new(0) }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// The time after which one would be admitted.
    pub(super) fn take(&self) -> Result<(), Duration> {
        self.take_at(u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn take_at(&self, now: u64) -> Result<(), Duration> {
        let mut due = self.due.load(Ordering::Relaxed);
        loop {
            let next = due.max(now).saturating_add(self.interval);
            let ahead = next - now;
            if ahead > self.burst {
                return Err(Duration::from_nanos(ahead - self.burst));
            }
            match self.due.compare_exchange_weak(due, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => due = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_have_a_number_and_a_unit() {
        let rate = Rate::parse("100/s", None).unwrap();
        assert_eq!((rate.interval, rate.burst), (10_000_000, 1_000_000_000));
        let rate = Rate::parse("6/m", None).unwrap();
        assert_eq!((rate.interval, rate.burst), (10_000_000_000, 10_000_000_000));
        let rate = Rate::parse("6/m", Some(3)).unwrap();
        assert_eq!(rate.burst, 30_000_000_000);
        for wrong in ["", "100", "100/d", "0/s", "-1/s", "x/s", "9999999999/s"] {
            assert!(Rate::parse(wrong, None).unwrap_err().contains("is not a number of requests"), "{wrong}");
        }
        assert!(Rate::parse("1/s", Some(0)).unwrap_err().contains("burst"));
    }

    #[test]
    fn refused_request_is_admitted_after_the_given_time() {
        let rate = Rate::parse("10/s", Some(1)).unwrap();
        assert_eq!(rate.take_at(5), Ok(()));
        let wait = rate.take_at(6).unwrap_err();
        assert_eq!(wait, Duration::from_nanos(99_999_999));
        assert!(rate.take_at(6 + 99_999_998).is_err());
        assert_eq!(rate.take_at(6 + 99_999_999), Ok(()));
    }

    proptest! {
        #[test]
        fn rate_is_a_token_bucket(
            burst in 1_u64..5,
            gaps in prop::collection::vec(0_u64..3_000_000_000, 1..60),
        ) {
            let rate = Rate::parse("1/s", Some(burst)).unwrap();
            let (mut now, mut credit) = (0, rate.burst);
            for gap in gaps {
                now += gap;
                credit = rate.burst.min(credit + gap);
                let admits = credit >= rate.interval;
                credit -= if admits { rate.interval } else { 0 };
                prop_assert_eq!(rate.take_at(now).is_ok(), admits);
            }
        }
    }
}
