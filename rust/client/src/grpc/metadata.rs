//! Metadata of a call.

use crate::Options;
use http::HeaderMap;
use std::time::Duration;

/// Value of `grpc-timeout`: at most eight digits and a unit.
pub(crate) fn timeout_text(timeout: Duration) -> String {
    const MOST: u128 = 99_999_999;
    match timeout.as_micros() {
        micros @ 0..=MOST => format!("{}u", micros.max(1)),
        micros if micros / 1000 <= MOST => format!("{}m", micros / 1000),
        micros => format!("{}S", (micros / 1_000_000).min(MOST)),
    }
}

/// Adds the client's headers and a call's as metadata.
pub(crate) fn put_metadata(headers: &mut HeaderMap, options: &Options, own: &[(String, String)]) {
    for (name, value) in options.headers.iter().chain(own) {
        // Checked when they were set.
        let name = http::HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes());
        if let (Ok(name), Ok(value)) = (name, http::HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_have_at_most_eight_digits() {
        for (timeout, text) in [
            (Duration::ZERO, "1u"),
            (Duration::from_millis(500), "500000u"),
            (Duration::from_secs(99), "99000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(timeout_text(timeout), text);
        }
    }
}
