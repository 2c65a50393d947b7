//! Reasons for which batches are cut.

/// Why a batch was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The largest batch is full.
    Full,
    /// What waits next would cost more than a batch may.
    Cost,
    /// A preferred size was reached within the delay.
    Preferred,
    /// An instance was free and nothing else was to be waited for.
    Idle,
    /// The callers who were expected back are back.
    Returned,
    /// They are not, and the hold has run out.
    HoldExpired,
    /// The oldest request has waited for `max_delay`.
    Delay,
    /// A deadline leaves no time to wait.
    Deadline,
    /// A larger batch, or a longer wait, would take more than `target_p99`.
    Target,
    /// A larger batch would take more than `max_duration`.
    Duration,
    /// The server is draining.
    Drain,
}

impl Reason {
    /// Every reason, for tables and metrics.
    pub const ALL: [Self; 11] = [
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
    ];

    /// The label in metrics and logs.
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
        }
    }
}
