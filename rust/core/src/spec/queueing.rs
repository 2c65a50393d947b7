//! Queueing options of a model: priorities, limits, timeouts, fairness between clients.

use std::time::Duration;

/// Queueing options of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queueing {
    /// Number of priority levels; 1 for none. Level 1 is the highest.
    pub priorities: usize,
    /// Level of requests without a priority.
    pub default_priority: usize,
    /// Maximum wait of a request, in addition to its own deadline.
    pub timeout: Option<Duration>,
    /// Maximum rows in the queue; `None` for no limit.
    pub max_rows: Option<usize>,
    /// Maximum input bytes in the queue; `None` for no limit.
    pub max_bytes: Option<usize>,
    /// Fairness between clients; `None` for the order of arrival.
    pub fair: Option<Fairness>,
    /// Options of single levels, highest first. Levels without an entry have the defaults.
    pub levels: Vec<Level>,
}

/// Queueing options of one priority level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Maximum requests of this level in the queue; `None` for the model's limit alone.
    pub max_size: Option<usize>,
    /// Maximum wait; `None` for the model's.
    pub timeout: Option<Duration>,
    /// Treatment of requests that waited longer.
    pub overdue: Overdue,
}

/// Treatment of requests that waited longer than their level allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overdue {
    /// Answered with a timeout error.
    #[default]
    Reject,
    /// Moved behind all requests of the level that are not overdue.
    Delay,
}

/// Identity of a client for fairness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FairBy {
    /// A header, in lower case. Requests without it count as one client.
    Header(String),
    /// Its [`ClientIdentity`](crate::ClientIdentity): key, certificate or address.
    Client,
}

/// Fairness between clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fairness {
    /// Identity of a client.
    pub by: FairBy,
    /// Maximum rows of one client in the queue; `None` for the model's limit alone.
    pub max_rows: Option<usize>,
}

impl Default for Queueing {
    fn default() -> Self {
        Self {
            priorities: 1,
            default_priority: 1,
            timeout: None,
            max_rows: None,
            max_bytes: None,
            fair: None,
            levels: Vec::new(),
        }
    }
}

impl Queueing {
    /// Level, counted from 0, of a request's priority.
    ///
    /// 0 and values above the number of levels mean the default level.
    pub fn level(&self, priority: u64) -> usize {
        let named = usize::try_from(priority).ok().filter(|level| (1..=self.priorities).contains(level));
        named.unwrap_or(self.default_priority).saturating_sub(1)
    }

    /// Options of a level, counted from 0, with the model's defaults.
    pub fn policy(&self, level: usize) -> Level {
        let Level { max_size, timeout, overdue } = self.levels.get(level).copied().unwrap_or_default();
        Level { max_size, timeout: timeout.or(self.timeout), overdue }
    }

    /// Time after which a waiting request of that priority is rejected; `None` for never.
    pub fn patience(&self, priority: u64) -> Option<Duration> {
        let Level { timeout, overdue, .. } = self.policy(self.level(priority));
        timeout.filter(|_| overdue == Overdue::Reject)
    }

    /// Levels, counted from 0, that delay overdue requests.
    pub(crate) fn delaying(&self) -> Vec<usize> {
        (0..self.levels.len()).filter(|&level| self.policy(level).overdue == Overdue::Delay).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_zero_or_out_of_range_is_the_default() {
        let queueing = Queueing { priorities: 3, default_priority: 2, ..Queueing::default() };
        let levels = [0, 1, 2, 3, 4, u64::MAX].map(|priority| queueing.level(priority));
        assert_eq!(levels, [1, 0, 1, 2, 1, 1]);
        assert_eq!(Queueing::default().level(7), 0);
    }

    #[test]
    fn level_inherits_limits_from_the_model() {
        let own = Level { max_size: Some(3), timeout: None, overdue: Overdue::Delay };
        let timeout = Some(Duration::from_secs(1));
        let queueing = Queueing { priorities: 2, timeout, levels: vec![own], ..Queueing::default() };
        assert_eq!(queueing.policy(0), Level { timeout, ..own });
        assert_eq!(queueing.policy(1), Level { timeout, ..Level::default() });
        assert_eq!(queueing.delaying(), [0]);
    }
}
