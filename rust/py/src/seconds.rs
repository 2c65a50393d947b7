//! Seconds, as Python has them, as durations.

use std::time::Duration;

/// Converts seconds to a duration; `None` for 0 and for a number that is not a duration.
pub(crate) fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero())
}
