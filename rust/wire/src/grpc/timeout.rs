//! The `grpc-timeout` header.

use std::time::Duration;

/// Name of the header of a deadline, in gRPC and here in REST, too.
pub const TIMEOUT_HEADER: &str = "grpc-timeout";

/// Parses the value of a `grpc-timeout` header: one to eight digits and
/// one of the units `H M S m u n` (hours, minutes, seconds, milli-, micro- and nanoseconds). `None`
/// when it is anything else.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(penstock_wire::grpc::timeout(b"50m"), Some(Duration::from_millis(50)));
/// assert_eq!(penstock_wire::grpc::timeout(b"50 ms"), None);
/// ```
pub fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits.iter().fold(0, |count, digit| count * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::grpc::timeout::timeout;
    use std::time::Duration;

    #[test]
    fn every_grpc_timeout_unit_is_parsed() {
        let cases: [(&[u8], Duration); 7] = [
            (b"2H", Duration::from_secs(7200)),
            (b"3M", Duration::from_secs(180)),
            (b"4S", Duration::from_secs(4)),
            (b"5m", Duration::from_millis(5)),
            (b"6u", Duration::from_micros(6)),
            (b"7n", Duration::from_nanos(7)),
            (b"99999999H", Duration::from_secs(99_999_999 * 3600)),
        ];
        for (value, expected) in cases {
            assert_eq!(timeout(value), Some(expected), "{}", value.escape_ascii());
        }
    }

    #[test]
    fn malformed_grpc_timeouts_are_ignored() {
        for value in [&b""[..], b"S", b"5", b"5s", b"123456789S", b"-1S", b"+1S", b"1.5S", b" 1S", b"1S "] {
            assert_eq!(timeout(value), None, "{}", value.escape_ascii());
        }
    }
}
