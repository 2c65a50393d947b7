//! Times of log lines.

use penstock_wire::settings::LogFormat;
use std::time::{SystemTime, UNIX_EPOCH};

/// When a line was made.
#[derive(Debug)]
pub(crate) struct Stamp {
    /// Since 1970.
    millis: u64,
    format: LogFormat,
}

impl Stamp {
    pub(crate) fn now(format: LogFormat) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { millis: u64::try_from(since.as_millis()).unwrap_or(u64::MAX), format }
    }

    /// In a line for people.
    pub(crate) fn text(&self) -> String {
        match self.format {
            LogFormat::Default => format!("{}.{:03}", self.millis / 1000, self.millis % 1000),
            LogFormat::Iso8601 => self.iso(),
        }
    }

    /// In a line for machines.
    pub(crate) fn json(&self) -> serde_json::Value {
        match self.format {
            LogFormat::Default => (self.millis as f64 / 1e3).into(),
            LogFormat::Iso8601 => self.iso().into(),
        }
    }

    /// UTC, for example `2026-11-21T13:00:00.000Z`.
    fn iso(&self) -> String {
        let (mut days, of_day) = (self.millis / 86_400_000, self.millis % 86_400_000);
        let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let mut year = 1970;
        while days >= 365 + u64::from(is_leap(year)) {
            days -= 365 + u64::from(is_leap(year));
            year += 1;
        }
        let february = 28 + u64::from(is_leap(year));
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        let (seconds, millis) = (of_day / 1000, of_day % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z", days + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{LogFormat, Stamp};

    #[test]
    fn dates_are_those_of_the_calendar() {
        let iso = |seconds: u64| Stamp { millis: seconds * 1000 + 7, format: LogFormat::Iso8601 }.text();
        assert_eq!(iso(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(iso(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(iso(951_868_799), "2000-02-29T23:59:59.007Z");
        assert_eq!(iso(1_735_689_599), "2024-12-31T23:59:59.007Z");
        assert_eq!(iso(1_735_689_600), "2025-01-01T00:00:00.007Z");
        assert_eq!(iso(4_107_542_400), "2100-03-01T00:00:00.007Z");
    }
}
