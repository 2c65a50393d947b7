//! Decimal text to floats, correctly rounded (IEEE 754, ties to even).

use super::number::{Decimal, ShortDecimal, compare};
use std::cmp::Ordering;

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// Their reciprocals, rounded.
const TENTHS: [f64; 19] = [
    1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15, 1e-16, 1e-17,
    1e-18,
];
/// Mantissas up to here are exact as doubles.
const EXACT_MANTISSA: u64 = 1 << 53;

/// The nearest double; infinite when it is out of range. `text` is what `decimal` was read from.
#[inline(always)]
pub(crate) fn to_f64(decimal: &Decimal, text: &[u8]) -> f64 {
    if decimal.exact {
        if decimal.mantissa <= EXACT_MANTISSA
            && let Some(value) = scaled(decimal)
        {
            // Both operands were exact, so the one operation rounded correctly (Clinger's fast path).
            return value.copysign(sign(decimal.negative));
        }
        if let Ok(places @ 0..=27) = usize::try_from(decimal.exponent.wrapping_neg()) {
            return divided(decimal.mantissa, places).copysign(sign(decimal.negative));
        }
    }
    written_f64(text)
}

/// The nearest single; infinite when it is out of range. `text` is what `decimal` was read from.
#[inline(always)]
pub(crate) fn to_f32(decimal: &Decimal, text: &[u8]) -> f32 {
    if decimal.exact
        && let Some(value) = scaled(decimal)
        && !is_near_half(value)
    {
        return (value as f32).copysign(sign(decimal.negative) as f32);
    }
    written_f32(text)
}

/// As [`to_f64`]. Never infinite.
#[inline(always)]
pub(crate) fn short_to_f64(short: &ShortDecimal) -> f64 {
    let mantissa = short.mantissa.unsigned_abs();
    let magnitude = if mantissa <= EXACT_MANTISSA {
        mantissa as f64 / POWERS[short.places]
    } else {
        divided(mantissa, short.places)
    };
    magnitude.copysign(sign(short.negative))
}

/// As [`to_f32`]; `None` when only the text decides. Never infinite.
#[inline(always)]
pub(crate) fn short_to_f32(short: &ShortDecimal) -> Option<f32> {
    // Three roundings, so within three units in the last place. A division would take longer.
    let magnitude = short.mantissa as f64 * TENTHS[short.places];
    (!is_near_half(magnitude)).then(|| f32::from_bits((magnitude as f32).to_bits() | u32::from(short.negative) << 31))
}

/// `mantissa * 10^exponent` within two units in the last place; `None` where that takes more than one
/// operation. Not subnormal, neither as a double nor as a single: it is zero or from 1e-22 to 1e42.
#[inline(always)]
fn scaled(decimal: &Decimal) -> Option<f64> {
    let power = *POWERS.get(decimal.exponent.unsigned_abs() as usize)?;
    let mantissa = decimal.mantissa as f64;
    Some(if decimal.exponent < 0 { mantissa / power } else { mantissa * power })
}

/// Returns whether a double is so close to the middle between two singles that its own error decides.
#[inline(always)]
fn is_near_half(value: f64) -> bool {
    const BELOW_SINGLE: u64 = (1 << 29) - 1;
    const HALF: u64 = 1 << 28;
    const MARGIN: u64 = 4;
    (value.to_bits() & BELOW_SINGLE).wrapping_sub(HALF - MARGIN) <= 2 * MARGIN
}

/// The nearest double to `mantissa / 10^places`, by one integer division; at most 27 places.
///
/// The quotient has 63 bits or more and its lowest is set if there is a remainder, so that its
/// conversion rounds as the exact quotient would.
#[inline(always)]
fn divided(mantissa: u64, places: usize) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let power = POWERS_OF_FIVE[places];
    let (mantissa_shift, power_shift) = (mantissa.leading_zeros(), power.leading_zeros());
    let dividend = u128::from(mantissa << mantissa_shift) << 63;
    let divisor = u128::from(power << power_shift);
    let quotient = dividend / divisor;
    let sticky = u64::from(quotient * divisor != dividend);
    let exponent = power_shift as i32 - mantissa_shift as i32 - 63 - places as i32;
    (quotient as u64 | sticky) as f64 * power_of_two(exponent)
}

/// Powers of five that fit 64 bits.
const POWERS_OF_FIVE: [u64; 28] = {
    let mut powers = [1; 28];
    let mut index = 1;
    while index < 28 {
        powers[index] = powers[index - 1] * 5;
        index += 1;
    }
    powers
};

/// One, or minus one. Random signs are common: no branch.
#[inline(always)]
fn sign(negative: bool) -> f64 {
    f64::from_bits(1_f64.to_bits() | u64::from(negative) << 63)
}

#[cold]
fn written_f64(text: &[u8]) -> f64 {
    fast_float2::parse(text).unwrap_or(f64::INFINITY)
}

#[cold]
fn written_f32(text: &[u8]) -> f32 {
    fast_float2::parse(text).unwrap_or(f32::INFINITY)
}

/// A binary float of 16 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfFormat {
    /// Bits of the stored mantissa.
    mantissa_bits: i32,
    /// The smallest exponent of a normal number.
    min_exponent: i32,
    /// The largest exponent.
    max_exponent: i32,
}

impl HalfFormat {
    /// IEEE 754 half precision.
    pub(crate) const FP16: Self = Self { mantissa_bits: 10, min_exponent: -14, max_exponent: 15 };
    /// The upper half of a single.
    pub(crate) const BF16: Self = Self { mantissa_bits: 7, min_exponent: -126, max_exponent: 127 };

    /// The bits of the nearest value; `None` when it is out of range. `text` is what `decimal` was
    /// read from.
    pub(crate) fn nearest(self, decimal: &Decimal, text: &[u8]) -> Option<u16> {
        let value = to_f64(decimal, text).abs();
        if !value.is_finite() {
            return None;
        }
        let stored_exponent = (value.to_bits() >> 52) as i32 - 1023;
        if stored_exponent > self.max_exponent {
            return None;
        }
        let exponent = stored_exponent.max(self.min_exponent);
        // In units of the last place; exact, because only the exponent changes.
        let units = value * power_of_two(self.mantissa_bits - exponent);
        let rounded = if units.fract() == 0.5 {
            // The double may have been rounded to this half: only the text knows.
            match compare(text, value) {
                Ordering::Less => units.floor(),
                Ordering::Equal => units.round_ties_even(),
                Ordering::Greater => units.ceil(),
            }
        } else {
            units.round()
        };
        // The leading one of a normal number carries into the exponent.
        let magnitude = ((exponent - self.min_exponent) << self.mantissa_bits) + rounded as i32;
        let infinity = (self.max_exponent - self.min_exponent + 2) << self.mantissa_bits;
        (magnitude < infinity).then_some(magnitude as u16 | u16::from(decimal.negative) << 15)
    }

    /// The bits of infinity.
    pub(crate) const fn infinity(self) -> u16 {
        ((self.max_exponent - self.min_exponent + 2) << self.mantissa_bits) as u16
    }

    /// The bits of the usual quiet NaN.
    pub(crate) const fn nan(self) -> u16 {
        self.infinity() | 1 << (self.mantissa_bits - 1)
    }
}

/// Exact for exponents of normal doubles.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::number::{scan, scan_short};
    use half::{bf16, f16};
    use proptest::prelude::*;

    fn parsed(text: &str) -> Decimal {
        let (decimal, end) = scan(text.as_bytes(), 0).unwrap();
        assert_eq!(end, text.len());
        decimal
    }

    fn agrees(text: &str) {
        let decimal = parsed(text);
        let double: f64 = text.parse().unwrap();
        let single: f32 = text.parse().unwrap();
        assert_eq!(to_f64(&decimal, text.as_bytes()).to_bits(), double.to_bits(), "{text}");
        assert_eq!(to_f32(&decimal, text.as_bytes()).to_bits(), single.to_bits(), "{text}");
        if let Some((short, _)) = scan_short(format!("{text}{}", " ".repeat(40)).as_bytes(), 0) {
            assert_eq!(short_to_f64(&short).to_bits(), double.to_bits(), "{text}");
            assert_eq!(short_to_f32(&short).unwrap_or(single).to_bits(), single.to_bits(), "{text}");
        }
    }

    #[test]
    fn hard_cases_agree_with_the_standard_library() {
        for text in [
            "0",
            "-0.0",
            "1e-45",
            "7e-46",
            "1.4e-45",
            "5e-324",
            "2e-324",
            "1e39",
            "1e400",
            "-1e400",
            "3.4028235e38",
            "3.4028235677973366e38",
            "3.4028235677973367e38",
            "16777217",
            "16777216.999999999999999999999",
            "16777217.0000000000000000001",
            "1.00000005960464477539062",
            "1.00000005960464477539063",
            "9007199254740993",
            "9007199254740992.5",
            "9999999999999999999",
            "99999999999999999999",
            "0.1000000000000000055511151231257827021181583404541015625",
            "123456789012345678901234567890e-30",
            "1e22",
            "1e23",
            "1e-22",
            "1e-23",
            "0.00000000000000000000000000000000000000000000001",
        ] {
            agrees(text);
        }
    }

    #[test]
    fn fp16_and_bf16_round_once_with_ties_to_even() {
        let half = |text: &str| HalfFormat::FP16.nearest(&parsed(text), text.as_bytes());
        // 1 + 2^-11 lies between 1 and 1 + 2^-10.
        assert_eq!(half("1.00048828125"), Some(0x3C00));
        assert_eq!(half("1.00048828125000000000000000000000001"), Some(0x3C01));
        assert_eq!(half("1.00048828124999999999999999999999999"), Some(0x3C00));
        assert_eq!(half("1.00146484375"), Some(0x3C02));
        assert_eq!(half("65504"), Some(0x7BFF));
        assert_eq!(half("65519.999999999999999999999999999"), Some(0x7BFF));
        assert_eq!(half("65520"), None);
        assert_eq!(half("1e400"), None);
        assert_eq!(half("-5.960464477539063e-8"), Some(0x8001));
        assert_eq!(half("2.98e-8"), Some(0));
        assert_eq!(half("-0"), Some(0x8000));
        assert_eq!(half("1e-400"), Some(0));
        let bfloat16 = |text: &str| HalfFormat::BF16.nearest(&parsed(text), text.as_bytes());
        assert_eq!(bfloat16("1.00390625"), Some(0x3F80));
        assert_eq!(bfloat16("1.003906250000000000000000000000001"), Some(0x3F81));
        assert_eq!(bfloat16("3.3895314e38"), Some(0x7F7F));
        assert_eq!(bfloat16("3.4e38"), None);
        assert_eq!(HalfFormat::FP16.infinity(), f16::INFINITY.to_bits());
        assert_eq!(HalfFormat::BF16.infinity(), bf16::INFINITY.to_bits());
        assert_eq!(HalfFormat::FP16.nan(), f16::NAN.to_bits());
        assert_eq!(HalfFormat::BF16.nan(), bf16::NAN.to_bits());
    }

    #[test]
    fn every_fp16_and_bf16_round_trips() {
        for bits in 0..=u16::MAX {
            for (narrow, value) in
                [(HalfFormat::FP16, f16::from_bits(bits).to_f64()), (HalfFormat::BF16, bf16::from_bits(bits).to_f64())]
            {
                if value.is_finite() {
                    let text = format!("{value:e}");
                    assert_eq!(narrow.nearest(&parsed(&text), text.as_bytes()), Some(bits), "{text}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn random_decimals_agree_with_the_standard_library(text in "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,24})?(e[+-]?[0-9]{1,2})?") {
            agrees(&text);
        }

        #[test]
        fn random_short_decimals_agree_with_the_standard_library(text in "-?(0|[1-9][0-9]{0,6})(\\.[0-9]{1,18})?") {
            agrees(&text);
        }

        #[test]
        fn shortest_texts_of_doubles_agree(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            agrees(&format!("{value:e}"));
        }

        #[test]
        fn shortest_texts_of_singles_agree(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            agrees(&format!("{value:e}"));
            // Python clients write the double of the single.
            agrees(&format!("{:?}", f64::from(value)));
        }

        #[test]
        fn ties_between_singles_agree(bits in 0x3000_0000u32..0x5000_0000, digits in 0usize..25, nudge in 0i64..3) {
            let middle = f64::from_bits(f64::from(f32::from_bits(bits)).to_bits() + (1 << 28));
            agrees(&format!("{middle:.digits$e}"));
            agrees(&format!("{:e}", f64::from_bits(middle.to_bits().wrapping_add_signed(nudge - 1))));
        }

        #[test]
        fn short_ties_between_singles_agree(bits in 0x3F80_0000u32..0x4B00_0000, digits in 10usize..19) {
            let middle = f64::from_bits(f64::from(f32::from_bits(bits)).to_bits() + (1 << 28));
            agrees(&format!("{middle:.digits$}"));
        }

        #[test]
        fn fp16_and_bf16_agree_with_narrowing_a_single(bits in 0u32..0x476A_0000) {
            // With a single's exact text, narrowing the single is the reference. All are below 60000.
            let value = f64::from(f32::from_bits(bits));
            let text = format!("{value:.200e}");
            let decimal = parsed(&text);
            let got = f16::from_bits(HalfFormat::FP16.nearest(&decimal, text.as_bytes()).unwrap());
            prop_assert_eq!(got, f16::from_f32(value as f32));
            let got = bf16::from_bits(HalfFormat::BF16.nearest(&decimal, text.as_bytes()).unwrap());
            prop_assert_eq!(got, bf16::from_f32(value as f32));
        }
    }

    proptest! {
        // One in two thousand quotients ends in a half that only the remainder decides.
        #![proptest_config(ProptestConfig::with_cases(1 << 15))]

        #[test]
        fn quotients_round_as_if_exact(mantissa in (1u64 << 53)..10_u64.pow(18), places in 12usize..19) {
            let (whole, fraction) = (mantissa / 10_u64.pow(places as u32), mantissa % 10_u64.pow(places as u32));
            agrees(&format!("{whole}.{fraction:0places$}"));
        }
    }
}
