//! Reasons for which batches are cut.

/// Reason for the cut of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The batch has the maximum size.
    Full,
    /// The next request would exceed the maximum cost.
    Cost,
    /// A preferred size was reached within the delay.
    Preferred,
    /// An instance was idle, and there was nothing to wait for.
    Idle,
    /// The expected clients have returned.
    Returned,
    /// The hold ran out before the expected clients returned.
    HoldExpired,
    /// The oldest request has waited for `max_delay`.
    Delay,
    /// A deadline leaves no time to wait.
    Deadline,
    /// A larger batch, or a longer wait, would exceed `target_p99`.
    Target,
    /// A larger batch would exceed `max_duration`.
    Duration,
    /// The server is draining.
    Drain,
    /// A step of an iterative model.
    Step,
}

impl Reason {
    /// All reasons, for tables and metrics.
    pub const ALL: [Self; 12] = [
        Self::Full,
        Self::Cost,
        Self::Preferred,
        Self::Idle,
        Self::Returned,
        Self::HoldExpired,
        Self::Delay,
        Self::Deadline,
        Self::Target,
        Self::Duration,
        Self::Drain,
        Self::Step,
    ];

    /// Label in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Cost => "cost",
            Self::Preferred => "preferred",
            Self::Idle => "idle",
            Self::Returned => "returned",
            Self::HoldExpired => "hold-expired",
            Self::Delay => "delay",
            Self::Deadline => "deadline",
            Self::Target => "target",
            Self::Duration => "duration",
            Self::Drain => "drain",
            Self::Step => "step",
        }
    }
}
