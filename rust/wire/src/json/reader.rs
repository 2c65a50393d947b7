//! A pull reader of strict JSON over bytes. It neither allocates nor recurses.

use super::number::{self, Decimal, ShortDecimal};
use super::{
    fault::{Scan, SyntaxError},
    string::Raw,
};
use crate::request::{MAX_PARAMETERS, bounded};

/// A position in a JSON text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Parameters read so far.
    parameters: usize,
}

/// The most levels that [`Reader::skip`] can count.
const MAX_DEPTH: usize = 128;

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, parameters: 0 }
    }

    /// Counts a parameter that is read next.
    ///
    /// # Errors
    /// `InvalidInput` beyond [`MAX_PARAMETERS`], those of a request and its tensors together.
    pub(crate) fn count_parameter(&mut self) -> penstock_core::Result<()> {
        self.parameters += 1;
        bounded("parameters", self.parameters, MAX_PARAMETERS)
    }

    /// The index of the next byte.
    #[inline(always)]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Another reader of the same text, from `at`.
    pub(crate) fn from(&self, at: usize) -> Self {
        Self { bytes: self.bytes, at, parameters: self.parameters }
    }

    /// Goes back, or forward, to a byte.
    pub(crate) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    /// Number of bytes left.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at.min(self.bytes.len())
    }

    /// The bytes from `start` to the next one.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// Skips white space; the next byte, which stays.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Takes the byte that [`peek`](Self::peek) has seen.
    #[inline(always)]
    pub(crate) fn bump(&mut self) {
        self.at += 1;
    }

    /// Takes `byte` if it is next, white space aside.
    #[inline(always)]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes `byte`, or returns the error.
    #[inline(always)]
    pub(crate) fn expect(&mut self, byte: u8, expected: &'static str) -> Scan<()> {
        if self.take(byte) { Ok(()) } else { Err(self.fault(expected)) }
    }

    /// Error for an unexpected byte.
    ///
    /// By value, like all cold functions: the reader can then stay in registers.
    #[cold]
    pub(crate) fn fault(self, expected: &'static str) -> SyntaxError {
        SyntaxError::new(self.at, expected)
    }

    /// Takes the comma or the closing bracket after an item; returns whether another item follows.
    #[inline(always)]
    pub(crate) fn next_item(&mut self) -> Scan<bool> {
        if self.bytes.get(self.at) == Some(&b',') {
            self.at += 1;
            return Ok(true);
        }
        let (more, after) = self.after_item()?;
        *self = after;
        Ok(more)
    }

    #[inline(never)]
    fn after_item(mut self) -> Scan<(bool, Self)> {
        let more = self.item(&mut false)?;
        Ok((more, self))
    }

    /// Takes a comma or the closing bracket; returns whether another item follows. `first` is true before the first
    /// item, and is cleared.
    #[inline(always)]
    pub(crate) fn item(&mut self, first: &mut bool) -> Scan<bool> {
        let opening = std::mem::replace(first, false);
        match self.peek() {
            Some(b']') => {
                self.bump();
                Ok(false)
            }
            Some(_) if opening => Ok(true),
            Some(b',') => {
                self.bump();
                Ok(true)
            }
            _ => Err(self.fault("',' or ']'")),
        }
    }

    /// The next key of an object, up to its value; `None` at the end. `first` as for an array.
    #[inline(always)]
    pub(crate) fn key(&mut self, first: &mut bool) -> Scan<Option<Raw<'a>>> {
        let opening = std::mem::replace(first, false);
        match self.peek() {
            Some(b'}') => {
                self.bump();
                return Ok(None);
            }
            Some(_) if opening => {}
            Some(b',') => self.bump(),
            _ => return Err(self.fault("',' or '}'")),
        }
        self.member().map(Some)
    }

    #[inline(always)]
    fn member(&mut self) -> Scan<Raw<'a>> {
        let key = self.string("a key in quotes")?;
        self.expect(b':', "':'")?;
        Ok(key)
    }

    /// A string.
    #[inline(always)]
    pub(crate) fn string(&mut self, expected: &'static str) -> Scan<Raw<'a>> {
        self.expect(b'"', expected)?;
        let (raw, end) = Raw::scan(self.bytes, self.at)?;
        self.at = end;
        Ok(raw)
    }

    /// A number and its text, if one is next. White space must be skipped already.
    #[inline(always)]
    pub(crate) fn number(&mut self) -> Option<(Decimal, &'a [u8])> {
        let (decimal, end) = number::scan(self.bytes, self.at)?;
        let text = &self.bytes[self.at..end];
        self.at = end;
        Some((decimal, text))
    }

    /// A short number, if one is next. White space must be skipped already.
    #[inline(always)]
    pub(crate) fn short(&mut self) -> Option<ShortDecimal> {
        let (short, end) = number::scan_short(self.bytes, self.at)?;
        self.at = end;
        Some(short)
    }

    /// Takes a word such as `true`, if it is next. White space must be skipped already.
    #[inline]
    pub(crate) fn word(&mut self, word: &str) -> bool {
        let found = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// `NaN`, `Infinity` or `-Infinity`, which are not JSON but common. White space must be skipped
    /// already.
    #[cold]
    pub(crate) fn non_finite(&mut self) -> Option<f32> {
        [("NaN", f32::NAN), ("Infinity", f32::INFINITY), ("-Infinity", f32::NEG_INFINITY)]
            .into_iter()
            .find_map(|(word, value)| self.word(word).then_some(value))
    }

    /// Takes one value of any kind, whose grammar is checked; the number of its leaves.
    ///
    /// # Errors
    /// A fault where the grammar is broken, or more levels are nested than `rules` allow.
    pub(crate) fn skip(&mut self, rules: Skip) -> Scan<usize> {
        let levels = rules.max_depth.min(MAX_DEPTH);
        let max_depth = levels.saturating_sub(rules.outer);
        // One bit a level: whether it is an object.
        let (mut objects, mut depth, mut leaves) = (0_u128, 0, 0);
        loop {
            match self.peek() {
                Some(open @ (b'[' | b'{')) => {
                    if depth == max_depth {
                        return Err(SyntaxError::too_deep(self.at, levels));
                    }
                    self.bump();
                    depth += 1;
                    objects = objects << 1 | u128::from(open == b'{');
                    if !self.take(open + 2) {
                        self.begin_member(objects)?;
                        continue;
                    }
                    objects >>= 1;
                    depth -= 1;
                }
                _ => {
                    self.leaf(rules)?;
                    leaves += 1;
                }
            }
            // After a value: closes what ends here, up to a comma or the end of the whole.
            loop {
                if depth == 0 {
                    return Ok(leaves);
                }
                if self.take(b',') {
                    self.begin_member(objects)?;
                    break;
                }
                let (close, expected) = if objects & 1 == 1 { (b'}', "',' or '}'") } else { (b']', "',' or ']'") };
                self.expect(close, expected)?;
                objects >>= 1;
                depth -= 1;
            }
        }
    }

    #[inline(always)]
    fn begin_member(&mut self, objects: u128) -> Scan<()> {
        if objects & 1 == 1 {
            self.member()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn leaf(&mut self, rules: Skip) -> Scan<()> {
        let found = match self.peek() {
            Some(b'"') => {
                self.string("a string")?;
                true
            }
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number().is_some() || (rules.non_finite && self.non_finite().is_some()),
        };
        if found { Ok(()) } else { Err(self.fault("a JSON value")) }
    }
}

/// Values that [`Reader::skip`] accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skip {
    /// The most levels of arrays and objects; 128 at most.
    pub(crate) max_depth: usize,
    /// Levels that are open around the value.
    pub(crate) outer: usize,
    /// Count `NaN` and the infinities as numbers.
    pub(crate) non_finite: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn skip(text: &str, max_depth: usize) -> Result<usize, String> {
        let mut reader = Reader::new(text.as_bytes());
        let leaves = reader.skip(Skip { max_depth, outer: 0, non_finite: false }).map_err(|fault| fault.to_string())?;
        if reader.peek().is_some() { Err(format!("rest at {}", reader.at())) } else { Ok(leaves) }
    }

    #[test]
    fn skip_counts_leaves() {
        assert_eq!(skip(r#" {"a":[1,[2,"x"],{}],"b":null} "#, 3), Ok(4));
        assert_eq!(skip("[]", 1), Ok(0));
        assert_eq!(skip("[[],[[]]]", 3), Ok(0));
    }

    #[test]
    fn nesting_is_limited_and_uses_no_stack() {
        let deep = "[".repeat(10_000);
        assert_eq!(skip(&deep, 64).unwrap_err(), "request JSON at byte 64: expected at most 64 levels of nesting");
        assert_eq!(
            skip(&deep, usize::MAX).unwrap_err(),
            "request JSON at byte 128: expected at most 128 levels of nesting"
        );
        assert_eq!(skip(&format!("{}{}", "[".repeat(64), "]".repeat(64)), 64), Ok(0));
    }

    #[test]
    fn refusals_name_the_expected_token() {
        for (text, message) in [
            ("[1 2]", "request JSON at byte 3: expected ',' or ']'"),
            ("{\"a\" 1}", "request JSON at byte 5: expected ':'"),
            ("{\"a\":1 2}", "request JSON at byte 7: expected ',' or '}'"),
            ("{1:1}", "request JSON at byte 1: expected a key in quotes"),
            ("{\"a\":1,}", "request JSON at byte 7: expected a key in quotes"),
            ("[1,]", "request JSON at byte 3: expected a JSON value"),
            ("[NaN]", "request JSON at byte 1: expected a JSON value"),
            ("tru", "request JSON at byte 0: expected a JSON value"),
            ("[1}", "request JSON at byte 2: expected ',' or ']'"),
            ("", "request JSON at byte 0: expected a JSON value"),
            ("[", "request JSON at byte 1: expected a JSON value"),
        ] {
            assert_eq!(skip(text, 64).unwrap_err(), message, "{text}");
        }
    }

    #[test]
    fn non_finite_numbers_are_counted_if_allowed() {
        let mut reader = Reader::new(b"[NaN, Infinity,-Infinity,1]");
        assert_eq!(reader.skip(Skip { max_depth: 1, outer: 0, non_finite: true }), Ok(4));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn grammar_agrees_with_serde_json(text in "[\\[\\]{}:, \"a1.-]{0,12}|(\\[|\\{\"k\":|1|\"s\"|,|\\]|\\}|true|null| ){0,10}") {
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(skip(&text, 64).is_ok(), theirs);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Reader::new(&bytes).skip(Skip { max_depth: 64, outer: 0, non_finite: true });
        }
    }
}
