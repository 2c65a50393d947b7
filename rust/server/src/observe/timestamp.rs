//! Times of log lines.

use chrono::{DateTime, SecondsFormat};
use penstock_wire::settings::LogFormat;
use std::time::{SystemTime, UNIX_EPOCH};

/// Time of a log line.
#[derive(Debug)]
pub(crate) struct Stamp {
    /// Milliseconds since 1970.
    millis: u64,
    format: LogFormat,
}

impl Stamp {
    pub(crate) fn now(format: LogFormat) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { millis: u64::try_from(since.as_millis()).unwrap_or(u64::MAX), format }
    }

    /// Formats the time for a text line.
    pub(crate) fn text(&self) -> String {
        match self.format {
            LogFormat::Default => format!("{}.{:03}", self.millis / 1000, self.millis % 1000),
            LogFormat::Iso8601 => self.iso(),
        }
    }

    /// Formats the time for a JSON line.
    pub(crate) fn json(&self) -> serde_json::Value {
        match self.format {
            LogFormat::Default => (self.millis as f64 / 1e3).into(),
            LogFormat::Iso8601 => self.iso().into(),
        }
    }

    /// Reports whether the text is a number of seconds.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.format, LogFormat::Default)
    }

    /// Formats UTC, for example `2026-11-21T13:00:00.000Z`.
    fn iso(&self) -> String {
        let time = i64::try_from(self.millis).ok().and_then(DateTime::from_timestamp_millis);
        time.unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
    }
}

#[cfg(test)]
mod tests {
    use super::{LogFormat, Stamp};

    #[test]
    fn timestamps_follow_the_calendar() {
        let iso = |seconds: u64| Stamp { millis: seconds * 1000 + 7, format: LogFormat::Iso8601 }.text();
        assert_eq!(iso(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(iso(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(iso(951_868_799), "2000-02-29T23:59:59.007Z");
        assert_eq!(iso(1_735_689_599), "2024-12-31T23:59:59.007Z");
        assert_eq!(iso(1_735_689_600), "2025-01-01T00:00:00.007Z");
        assert_eq!(iso(4_107_542_400), "2100-03-01T00:00:00.007Z");
    }
}
