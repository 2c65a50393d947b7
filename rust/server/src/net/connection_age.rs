//! The age of a connection, at which its client is asked to open another one.

use super::connections::Signal;
use crate::settings::Limits;
use std::{
    hash::{BuildHasher as _, RandomState},
    time::{Duration, Instant},
};

/// The age of one connection.
#[derive(Debug)]
pub(crate) struct Age {
    opened: Instant,
    /// Place of its limit between the least, 0, and the most, 1; `None` before there is a limit.
    share: Option<f64>,
    retired: Option<Instant>,
}

impl Age {
    /// The age of a new connection.
    pub(crate) fn new() -> Self {
        Self { opened: Instant::now(), share: None, retired: None }
    }

    /// Returns what the connection must do now.
    pub(crate) fn check(&mut self, limits: &Limits) -> Option<Signal> {
        let limit = self.limit(limits)?;
        let now = Instant::now();
        match self.retired {
            None if now.duration_since(self.opened) > limit => {
                self.retired = Some(now);
                Some(Signal::Retire)
            }
            Some(retired) if now.duration_since(retired) > limits.max_connection_age_grace.get() => Some(Signal::Close),
            _ => None,
        }
    }

    /// Age at which it retires; `None` for never.
    ///
    /// It differs from the setting by up to a tenth (gRFC A9), so that clients which connected at once do not connect
    /// again at once.
    fn limit(&mut self, limits: &Limits) -> Option<Duration> {
        let limit = limits.max_connection_age.get();
        (limit < Duration::MAX).then(|| {
            let share = || RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
            limit.mul_f64(0.9 + 0.2 * *self.share.get_or_insert_with(share))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_retires_once_and_closes_after_the_grace() {
        let age = |age, grace| Limits {
            max_connection_age: Duration::into(age),
            max_connection_age_grace: Duration::into(grace),
            ..Limits::default()
        };
        let (long, short) = (Duration::from_secs(3600), Duration::ZERO);
        assert_eq!(Age::new().check(&Limits::default()), None);
        assert_eq!(Age::new().check(&age(long, short)), None);
        let mut retiring = Age::new();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(retiring.check(&age(short, long)), Some(Signal::Retire));
        assert_eq!(retiring.check(&age(short, long)), None);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(retiring.check(&age(short, short)), Some(Signal::Close));
    }

    #[test]
    fn limits_of_connections_differ_by_a_tenth_at_most() {
        let limits = Limits { max_connection_age: Duration::from_secs(100).into(), ..Limits::default() };
        let seconds: Vec<f64> = (0..50).map(|_| Age::new().limit(&limits).expect("a limit").as_secs_f64()).collect();
        assert!(seconds.iter().all(|seconds| (90.0..=110.0).contains(seconds)), "{seconds:?}");
        assert!(seconds.iter().any(|one| (one - seconds[0]).abs() > 0.1), "{seconds:?}");
    }
}
