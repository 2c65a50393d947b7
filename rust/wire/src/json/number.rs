//! Decimal numbers in JSON: found and read in one pass, eight digits at a time.

// By hand for speed: an FP32 of nine digits takes 9.8 ns, with fast-float2 17.0 and lexical-core 17.2, which do not
// check JSON's grammar.

use std::cmp::Ordering;

/// A number as it is written: `mantissa * 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// Begins with a minus.
    pub(crate) negative: bool,
    /// All its digits as one integer, if [`exact`](Self::exact).
    pub(crate) mantissa: u64,
    /// Exponent of ten, if [`exact`](Self::exact).
    pub(crate) exponent: i32,
    /// The digits and the exponent fit; if not, only the text has the value.
    pub(crate) exact: bool,
}

/// A number of at most eighteen digits without an exponent, as nearly all are:
/// `mantissa / 10^places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortDecimal {
    /// Begins with a minus.
    pub(crate) negative: bool,
    /// All its digits as one integer, below `10^18`.
    pub(crate) mantissa: i64,
    /// Number of digits after the point; at most eighteen.
    pub(crate) places: usize,
}

/// The most digits of a short number.
const MAX_SHORT: usize = 18;
/// The most digits that always fit a mantissa.
const MAX_DIGITS: usize = 19;
/// The most digits of an exponent that always fit.
const MAX_EXPONENT_DIGITS: usize = 8;

/// Powers of ten.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut index = 1;
    while index < 20 {
        powers[index] = powers[index - 1] * 10;
        index += 1;
    }
    powers
};

/// Scans the number at `start`; returns it and the index after it, or `None`.
///
/// The grammar is JSON's: no plus sign, no leading zero, digits on both sides of a point.
#[inline(always)]
pub(crate) fn scan(bytes: &[u8], start: usize) -> Option<(Decimal, usize)> {
    let negative = *bytes.get(start)? == b'-';
    let mut at = start + usize::from(negative);
    let mut mantissa = 0;
    let first = bytes.get(at)?.wrapping_sub(b'0');
    let mut digits;
    if bytes.get(at + 1) == Some(&b'.') && first <= 9 {
        // One digit and a point: by far the most common start of a float.
        mantissa = u64::from(first);
        digits = usize::from(first != 0);
        at += 1;
    } else {
        digits = take_digits(bytes, at, &mut mantissa);
        if digits == 0 || (first == 0 && digits > 1) {
            return None;
        }
        at += digits;
    }
    let mut exponent = 0;
    let mut exact = true;
    if bytes.get(at) == Some(&b'.') {
        let fraction = take_digits(bytes, at + 1, &mut mantissa);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
        digits += fraction;
        // Wraps only for a number that is not exact anyway.
        exponent = -(fraction as i32);
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let (power, end) = take_exponent(bytes, at + 1)?;
        at = end;
        exact = power.is_some();
        exponent = exponent.wrapping_add(power.unwrap_or(0));
    }
    exact &= digits <= MAX_DIGITS;
    Some((Decimal { negative, mantissa, exponent, exact }, at))
}

/// Scans a number like [`scan`], if it is short and not near the end of `bytes`. Costs half as much.
#[inline(always)]
pub(crate) fn scan_short(bytes: &[u8], start: usize) -> Option<(ShortDecimal, usize)> {
    // A sign, seven digits, a point, sixteen digits, and a word in which the number must end.
    let window = bytes.get(start..)?.first_chunk::<40>()?;
    let negative = window[0] == b'-';
    let sign = usize::from(negative);
    let word = digits_at(window, sign);
    let first = word & 0xFF;
    let (whole, mut mantissa) = if window[sign + 1] == b'.' && first <= 9 {
        // By far the most common. That it is a branch lets what follows start before the length is known.
        (1, first)
    } else {
        let whole = leading_digits(word);
        if whole == 0 || whole == 8 || (first == 0 && whole > 1) {
            return None;
        }
        (whole, first_digits(word, whole))
    };
    let point = sign + whole;
    let (mut end, mut places) = (point, 0);
    if window[point] == b'.' {
        (places, mantissa) = short_fraction(window, point + 1, mantissa)?;
        end = point + 1 + places;
    }
    let digits = whole + places - usize::from(first == 0);
    if digits > MAX_SHORT || window[end] | 0x20 == b'e' {
        return None;
    }
    Some((ShortDecimal { negative, mantissa: mantissa as i64, places }, start + end))
}

/// Appends the digits after a point to `mantissa`: eight, then up to eight more, then up to two. No branch depends on
/// the number of digits within a word, which is unpredictable.
#[inline(always)]
fn short_fraction(window: &[u8; 40], at: usize, mantissa: u64) -> Option<(usize, u64)> {
    let append = |mantissa: u64, word, count: usize| {
        // Wraps only for too many digits before the point, which `scan_short` rejects.
        mantissa.wrapping_mul(POWERS[count]).wrapping_add(first_digits(word, count))
    };
    let word = digits_at(window, at);
    let count = leading_digits(word);
    let mantissa = append(mantissa, word, count);
    if count < 8 {
        return (count > 0).then_some((count, mantissa));
    }
    let word = digits_at(window, at + 8);
    let count = leading_digits(word);
    let mantissa = append(mantissa, word, count);
    if count < 8 {
        return Some((8 + count, mantissa));
    }
    let word = digits_at(window, at + 16);
    let count = leading_digits(word);
    // More do not fit.
    (count <= 2).then(|| (16 + count, append(mantissa, word, count)))
}

/// Eight characters of which `0` to `9` become their values, and others more.
#[inline(always)]
fn digits_at(window: &[u8; 40], at: usize) -> u64 {
    load(window, at) ^ ZEROS
}

/// Reads the digits at `at` onto the end of `value`, which wraps after nineteen; returns how many.
#[inline(always)]
fn take_digits(bytes: &[u8], at: usize, value: &mut u64) -> usize {
    let mut taken = 0;
    loop {
        let chunk = load(bytes, at + taken) ^ ZEROS;
        let count = leading_digits(chunk);
        *value = value.wrapping_mul(POWERS[count]).wrapping_add(first_digits(chunk, count));
        taken += count;
        if count < 8 {
            return taken;
        }
    }
}

/// One in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// Eight characters `0`.
const ZEROS: u64 = ONES * b'0' as u64;

/// The value of the first `count` of eight digits.
#[inline(always)]
fn first_digits(chunk: u64, count: usize) -> u64 {
    // Two shifts, because a shift by all 64 bits is none.
    let half = 4 * (8 - count as u32);
    eight_digits((chunk << half) << half)
}

/// Number of leading bytes (from the low end) that are 0 to 9.
#[inline(always)]
fn leading_digits(chunk: u64) -> usize {
    const HIGH: u64 = ONES << 7;
    let over_nine = ((chunk & !HIGH) + ONES * (0x80 - 10)) | chunk;
    (over_nine & HIGH).trailing_zeros() as usize / 8
}

/// The value of eight digits, the most significant in the low byte.
#[inline(always)]
fn eight_digits(chunk: u64) -> u64 {
    const PAIRS: u64 = 0x0000_00FF_0000_00FF;
    let pairs = chunk.wrapping_mul(10).wrapping_add(chunk >> 8);
    let upper = (pairs & PAIRS).wrapping_mul(100 + (1_000_000 << 32));
    let lower = ((pairs >> 16) & PAIRS).wrapping_mul(1 + (10_000 << 32));
    upper.wrapping_add(lower) >> 32
}

/// Eight bytes from `at`, with zeros after the end.
#[inline(always)]
pub(crate) fn load(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => load_end(bytes, at),
    }
}

#[cold]
fn load_end(bytes: &[u8], at: usize) -> u64 {
    bytes.iter().skip(at).take(8).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The exponent after its `e`, `None` within for one of too many digits, and the index after it.
fn take_exponent(bytes: &[u8], at: usize) -> Option<(Option<i32>, usize)> {
    let sign = *bytes.get(at)?;
    let at = at + usize::from(matches!(sign, b'+' | b'-'));
    let mut value = 0;
    let digits = take_digits(bytes, at, &mut value);
    let power = (digits <= MAX_EXPONENT_DIGITS).then_some(value as i32);
    (digits > 0).then_some((power.map(|power| if sign == b'-' { -power } else { power }), at + digits))
}

/// The integer that a number is, however it is written; `None` for a fraction or more than `i128`'s
/// reach of use: everything beyond 38 digits.
#[inline(always)]
pub(crate) fn integer(decimal: &Decimal, text: &[u8]) -> Option<i128> {
    if decimal.exact && decimal.exponent == 0 {
        let value = i128::from(decimal.mantissa);
        return Some(if decimal.negative { -value } else { value });
    }
    written_integer(decimal.negative, text)
}

#[cold]
fn written_integer(negative: bool, text: &[u8]) -> Option<i128> {
    let Digits { digits, point } = Digits::of(text);
    let zeros = usize::try_from(point).ok()?.checked_sub(digits.len())?;
    if digits.is_empty() {
        return Some(0);
    }
    if point > 38 {
        return None;
    }
    let value = digits.iter().fold(0, |value, digit| value * 10 + i128::from(digit - b'0'));
    let value = value * 10_i128.pow(zeros as u32);
    Some(if negative { -value } else { value })
}

/// Compares the magnitudes of a written number and of a finite double, exactly.
#[cold]
pub(crate) fn compare(text: &[u8], value: f64) -> Ordering {
    // No double needs more than 767 significant digits.
    Digits::of(text).cmp(&Digits::of(format!("{value:.800e}").as_bytes()))
}

/// The magnitude `0.DIGITS * 10^point`, with neither leading nor trailing zeros; zero has no digits
/// and the point at 0.
struct Digits {
    digits: Vec<u8>,
    point: i64,
}

impl Digits {
    fn of(text: &[u8]) -> Self {
        let end = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
        let (mantissa, exponent) = text.split_at(end);
        let mut all: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
        let before_point = mantissa.split(|&byte| byte == b'.').next().unwrap_or_default();
        let whole = before_point.iter().filter(|byte| byte.is_ascii_digit()).count();
        all.truncate(all.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1));
        let leading = all.iter().take_while(|&&digit| digit == b'0').count();
        all.drain(..leading);
        if all.is_empty() {
            return Self { digits: all, point: 0 };
        }
        let magnitude = exponent
            .iter()
            .filter(|byte| byte.is_ascii_digit())
            .fold(0_i64, |value, byte| value.saturating_mul(10).saturating_add(i64::from(byte - b'0')));
        let power = if exponent.contains(&b'-') { -magnitude } else { magnitude };
        Self { digits: all, point: power.saturating_add(whole as i64 - leading as i64) }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let zero = other.digits.is_empty().cmp(&self.digits.is_empty());
        zero.then(self.point.cmp(&other.point)).then_with(|| self.digits.cmp(&other.digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Option<i128> {
        let (decimal, end) = scan(text.as_bytes(), 0)?;
        assert_eq!(end, text.len(), "{text}");
        agrees(text);
        integer(&decimal, text.as_bytes())
    }

    /// Checks the short scan against the other, with room after the number.
    fn agrees(text: &str) {
        let padded = format!("{text},{}", " ".repeat(40));
        if let Some((short, end)) = scan_short(padded.as_bytes(), 0) {
            let ShortDecimal { negative, mantissa, places } = short;
            let decimal = Decimal { negative, mantissa: mantissa as u64, exponent: -(places as i32), exact: true };
            assert_eq!(Some((decimal, end)), scan(padded.as_bytes(), 0), "{text}");
        }
    }

    #[test]
    fn common_numbers_take_the_short_scan() {
        for text in [
            "0",
            "-1",
            "9999999",
            "0.5",
            "-12.25",
            "0.10000000149011612",
            "-9.99999999999999999",
            "0.012345678901234567",
        ] {
            let padded = format!("{text},{}", " ".repeat(40));
            assert!(scan_short(padded.as_bytes(), 0).is_some(), "{text}");
            agrees(text);
        }
    }

    #[test]
    fn number_grammar_is_strict() {
        for wrong in ["", "-", "+1", "01", "-01", "00.5", ".5", "1.", "1.e5", "1e", "1e+", "-a", "x", "0.", "-."] {
            assert_eq!(scan(wrong.as_bytes(), 0), None, "{wrong}");
            agrees(wrong);
        }
        for (text, end) in [("1,", 1), ("0]", 1), ("-0.5 ", 4), ("1e5e", 3), ("12.5E-07}", 8), ("1.5.5", 3)] {
            assert_eq!(scan(text.as_bytes(), 0).unwrap().1, end, "{text}");
        }
    }

    #[test]
    fn integers_are_exact_in_any_notation() {
        for (text, expected) in [
            ("18446744073709551615", 18_446_744_073_709_551_615),
            ("-9223372036854775808", -9_223_372_036_854_775_808),
            ("9223372036854775807.000", 9_223_372_036_854_775_807),
            ("1.0", 1),
            ("1e2", 100),
            ("10e-1", 1),
            ("-0", 0),
            ("0e999999999999999999999", 0),
            ("0.0000000000000000000000000", 0),
            ("1.20e1", 12),
            ("100000000000000000000000e-21", 100),
            ("99999999999999999999999999999999999999", 99_999_999_999_999_999_999_999_999_999_999_999_999),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        for text in ["1.5", "1e-1", "1e39", "-1e999999999999999999999", "1e-99999999999999999999", "0.1"] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn comparison_with_a_double_is_exact() {
        assert_eq!(compare(b"0.5", 0.5), Ordering::Equal);
        assert_eq!(compare(b"-50.0e-2", 0.5), Ordering::Equal);
        assert_eq!(compare(b"0.50000000000000000000000000000000001", 0.5), Ordering::Greater);
        assert_eq!(compare(b"0.49999999999999999999999999999999999", 0.5), Ordering::Less);
        assert_eq!(compare(b"0", 0.5), Ordering::Less);
        assert_eq!(compare(b"0.001", 0.0), Ordering::Greater);
        assert_eq!(compare(b"0.000", 0.0), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn every_integer_round_trips(expected in any::<i128>().prop_map(|value| value >> 30 >> 34), shift in 0u32..64) {
            let expected = expected >> shift;
            prop_assert_eq!(value(&expected.to_string()), Some(expected));
            prop_assert_eq!(value(&format!("{expected}.00")), Some(expected));
        }

        #[test]
        fn scan_agrees_with_serde_json(text in "-?[0-9]{0,10}\\.?[0-9]{0,20}([eE][+-]?[0-9]{0,3})?") {
            agrees(&text);
            let whole = scan(text.as_bytes(), 0).is_some_and(|(_, end)| end == text.len());
            prop_assert_eq!(whole, serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..90), at in 0usize..99) {
            let _ = (scan(&bytes, at), scan_short(&bytes, at));
        }
    }
}
