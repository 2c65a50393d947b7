//! The inside of JSON strings: where they end, what their escapes mean, and how they are written.

use super::fault::{Scan, SyntaxError};
use super::number::load;
use std::borrow::Cow;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// A string between its quotes, with its escapes still in it. They are well formed and its bytes are
/// UTF-8; whether its surrogates pair is seen when it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    bytes: &'a [u8],
    /// Number of escapes. A flag would leave padding, and copies of padded structs stall.
    escapes: usize,
    at: usize,
}

impl<'a> Raw<'a> {
    /// The string whose first byte is at `at`, and the index after its closing quote.
    #[inline(always)]
    pub(crate) fn scan(bytes: &'a [u8], at: usize) -> Scan<(Self, usize)> {
        let mut position = at;
        let mut non_ascii = 0;
        let mut escapes = 0;
        loop {
            let word = load(bytes, position);
            let marks = special(word);
            if marks == 0 {
                non_ascii |= word & HIGH;
                position += 8;
                continue;
            }
            let plain = marks.trailing_zeros() / 8;
            non_ascii |= word & HIGH & !(u64::MAX << (8 * plain));
            position += plain as usize;
            match bytes.get(position) {
                Some(b'"') => break,
                Some(b'\\') => position = escape_end(bytes, position)?,
                other => return Err(Self::unclosed(position.min(bytes.len()), other.is_some())),
            }
            escapes += 1;
        }
        let text = &bytes[at..position];
        if non_ascii != 0 {
            Self::check_utf8(text, at)?;
        }
        Ok((Self { bytes: text, escapes, at }, position + 1))
    }

    #[cold]
    fn unclosed(at: usize, control: bool) -> SyntaxError {
        SyntaxError::new(at, if control { "control characters in strings to be escaped" } else { "a closing quote" })
    }

    #[cold]
    fn check_utf8(text: &[u8], at: usize) -> Scan<()> {
        std::str::from_utf8(text).map(drop).map_err(|error| SyntaxError::new(at + error.valid_up_to(), "UTF-8"))
    }

    /// The string's bytes, borrowed if it has no escapes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> Scan<Cow<'a, [u8]>> {
        if self.escapes == 0 { Ok(Cow::Borrowed(self.bytes)) } else { self.unescaped().map(Cow::Owned) }
    }

    #[cold]
    fn unescaped(&self) -> Scan<Vec<u8>> {
        let mut plain = Vec::with_capacity(self.bytes.len());
        self.parts(|part| plain.extend_from_slice(part))?;
        Ok(plain)
    }

    /// The string, borrowed if it has no escapes.
    #[inline(always)]
    pub(crate) fn text(&self) -> Scan<Cow<'a, str>> {
        let fault = |_| SyntaxError::new(self.at, "UTF-8");
        Ok(match self.bytes()? {
            Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).map_err(fault)?),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|error| fault(error.utf8_error()))?),
        })
    }

    /// Calls `emit` with the string's bytes, part by part.
    ///
    /// # Errors
    /// A surrogate without its other half.
    #[inline]
    pub(crate) fn parts(&self, mut emit: impl FnMut(&[u8])) -> Scan<()> {
        if self.escapes == 0 {
            emit(self.bytes);
            return Ok(());
        }
        let mut rest = self.bytes;
        while let Some(backslash) = memchr::memchr(b'\\', rest) {
            let at = self.at + self.bytes.len() - rest.len() + backslash;
            emit(&rest[..backslash]);
            let (character, length) =
                unescape(&rest[backslash..]).ok_or(SyntaxError::new(at, "surrogates in pairs"))?;
            emit(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = &rest[backslash + length..];
        }
        emit(rest);
        Ok(())
    }
}

/// Marks bytes that end a run of plain text: quote, backslash, control. The lowest mark is true; those
/// above it may not be.
#[inline(always)]
fn special(word: u64) -> u64 {
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let quote = is_zero(word ^ (ONES * b'"' as u64));
    let backslash = is_zero(word ^ (ONES * b'\\' as u64));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGH
}

/// The index after the escape at `at`, whose grammar is checked.
fn escape_end(bytes: &[u8], at: usize) -> Scan<usize> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') if bytes.get(at + 2..).and_then(hex4).is_some() => Ok(at + 6),
        _ => Err(SyntaxError::new(at, "a JSON escape sequence")),
    }
}

/// The character of the escape that `bytes` begins with, and the escape's length.
fn unescape(bytes: &[u8]) -> Option<(char, usize)> {
    let simple = match bytes.get(1)? {
        b'u' => return unescape_unicode(bytes),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        &other => char::from(other),
    };
    Some((simple, 2))
}

fn unescape_unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let high = hex4(bytes.get(2..)?)?;
    if let Some(character) = char::from_u32(high) {
        return Some((character, 6));
    }
    let low = hex4(bytes.get(6..)?.strip_prefix(b"\\u")?)?;
    if !(0xD800..0xDC00).contains(&high) || !(0xDC00..0xE000).contains(&low) {
        return None;
    }
    Some((char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))?, 12))
}

fn hex4(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<4>()?.iter().try_fold(0, |value, &byte| Some(value << 4 | char::from(byte).to_digit(16)?))
}

/// Appends `text` as a JSON string.
pub(crate) fn write(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(plain) = first_special(rest) {
        out.extend_from_slice(&rest[..plain]);
        match rest[plain] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                const HEX: [u8; 16] = *b"0123456789abcdef";
                let digits = [HEX[usize::from(control >> 4)], HEX[usize::from(control & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
        }
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// The index of the first byte that JSON must escape.
#[inline]
fn first_special(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        let marks = special(load(bytes, at));
        if marks != 0 {
            let found = at + marks.trailing_zeros() as usize / 8;
            // The zeros after the end look like control characters.
            return (found < bytes.len()).then_some(found);
        }
        at += 8;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(quoted: &[u8]) -> Result<String, String> {
        let (raw, end) = Raw::scan(quoted, 1).map_err(|fault| fault.to_string())?;
        assert_eq!(end, quoted.len());
        raw.text().map(Cow::into_owned).map_err(|fault| fault.to_string())
    }

    #[test]
    fn string_escapes_are_decoded() {
        assert_eq!(read(br#""a\"\\\/\b\f\n\r\tz""#).unwrap(), "a\"\\/\u{8}\u{c}\n\r\tz");
        assert_eq!(read(br#""\u0000\u00e9\uD83D\uDE00\uFFFF""#).unwrap(), "\0é😀\u{FFFF}");
        assert_eq!(read("\"héllo 😀\"".as_bytes()).unwrap(), "héllo 😀");
    }

    #[test]
    fn string_refusals_name_the_byte() {
        for (quoted, message) in [
            (&b"\"abc"[..], "request JSON at byte 4: expected a closing quote"),
            (b"\"abcdefgh", "request JSON at byte 9: expected a closing quote"),
            (b"\"a\nb\"", "request JSON at byte 2: expected control characters in strings to be escaped"),
            (b"\"a\\x\"", "request JSON at byte 2: expected a JSON escape sequence"),
            (b"\"a\\u12g4\"", "request JSON at byte 2: expected a JSON escape sequence"),
            (b"\"a\\u+123\"", "request JSON at byte 2: expected a JSON escape sequence"),
            (b"\"ab\\ud800\"", "request JSON at byte 3: expected surrogates in pairs"),
            (b"\"ab\\udc00\\ud800\"", "request JSON at byte 3: expected surrogates in pairs"),
            (b"\"ab\\ud800\\u0041\"", "request JSON at byte 3: expected surrogates in pairs"),
            (b"\"ab\xff\"", "request JSON at byte 3: expected UTF-8"),
            (b"\"12345678\xc3\"", "request JSON at byte 9: expected UTF-8"),
            (b"\"\\", "request JSON at byte 1: expected a JSON escape sequence"),
        ] {
            assert_eq!(read(quoted).unwrap_err(), message);
        }
    }

    proptest! {
        #[test]
        fn written_strings_round_trip(text in any::<String>()) {
            let mut written = Vec::new();
            write(&mut written, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&written).unwrap(), text.clone());
            prop_assert_eq!(read(&written).unwrap(), text);
        }

        #[test]
        fn reading_agrees_with_serde_json(text in "\"([a-zé\u{1}\\\\\"/u0-9]|\\\\u[dD][89aAbBcCdD][0-9]{2}|\\\\[\"n/]){0,20}\"") {
            let ours = Raw::scan(text.as_bytes(), 1).ok().filter(|(_, end)| *end == text.len());
            let ours = ours.and_then(|(raw, _)| raw.text().ok());
            prop_assert_eq!(ours, serde_json::from_str::<String>(&text).ok().map(Cow::Owned));
        }
    }
}
