//! Queueing options of a model: priorities, limits, timeouts, fairness between clients.

use std::time::Duration;

/// How requests wait for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queueing {
    /// Levels of priority; 1 is none at all. The highest is 1, the lowest is this number.
    pub priorities: usize,
    /// The level of requests that name none.
    pub default_priority: usize,
    /// The longest that a request may wait, whatever its own deadline.
    pub timeout: Option<Duration>,
    /// The most rows that wait; `None` for no bound but that of the requests.
    pub max_rows: Option<usize>,
    /// The most bytes of inputs that wait.
    pub max_bytes: Option<usize>,
    /// Whether clients take turns; `None` for the order of arrival.
    pub fair: Option<Fairness>,
    /// What differs on single levels, from the highest on. Those beyond it differ in nothing.
    pub levels: Vec<Level>,
}

/// How the requests of one level wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The most of them that wait; `None` for no bound but the model's.
    pub max_size: Option<usize>,
    /// The longest that they may wait; `None` for as long as those of other levels.
    pub timeout: Option<Duration>,
    /// What becomes of one that has waited for longer.
    pub overdue: Overdue,
}

/// What becomes of a request that has waited for longer than its level allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overdue {
    /// It is answered that it was too late.
    #[default]
    Reject,
    /// It goes behind all of its level that are in time.
    Delay,
}

/// By what clients are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fairness {
    /// The header, in lower case, whose value names a client. Those without it are one client together.
    pub header: String,
    /// The most rows of one client that wait; `None` for no bound but the model's.
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
    /// The level, counted from 0, of a request with that priority.
    ///
    /// 0 and what lies beyond the levels mean the default.
    pub fn level(&self, priority: u64) -> usize {
        let named = usize::try_from(priority).ok().filter(|level| (1..=self.priorities).contains(level));
        named.unwrap_or(self.default_priority).saturating_sub(1)
    }

    /// How the requests of a level, counted from 0, wait.
    pub fn policy(&self, level: usize) -> Level {
        let Level { max_size, timeout, overdue } = self.levels.get(level).copied().unwrap_or_default();
        Level { max_size, timeout: timeout.or(self.timeout), overdue }
    }

    /// After how long a request with that priority is given up if it still waits; `None` for never.
    pub fn patience(&self, priority: u64) -> Option<Duration> {
        let Level { timeout, overdue, .. } = self.policy(self.level(priority));
        timeout.filter(|_| overdue == Overdue::Reject)
    }

    /// The levels, counted from 0, whose late requests are delayed.
    pub(crate) fn delaying(&self) -> Vec<usize> {
        (0..self.levels.len()).filter(|&level| self.policy(level).overdue == Overdue::Delay).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_beyond_the_levels_is_the_default() {
        let queueing = Queueing { priorities: 3, default_priority: 2, ..Queueing::default() };
        let levels = [0, 1, 2, 3, 4, u64::MAX].map(|priority| queueing.level(priority));
        assert_eq!(levels, [1, 0, 1, 2, 1, 1]);
        assert_eq!(Queueing::default().level(7), 0);
    }

    #[test]
    fn a_level_has_the_models_limits_where_it_has_none_of_its_own() {
        let own = Level { max_size: Some(3), timeout: None, overdue: Overdue::Delay };
        let timeout = Some(Duration::from_secs(1));
        let queueing = Queueing { priorities: 2, timeout, levels: vec![own], ..Queueing::default() };
        assert_eq!(queueing.policy(0), Level { timeout, ..own });
        assert_eq!(queueing.policy(1), Level { timeout, ..Level::default() });
        assert_eq!(queueing.delaying(), [0]);
    }
}
