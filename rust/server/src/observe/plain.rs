//! Text of clients in log lines.

use std::{borrow::Cow, fmt::Write as _};

/// Longest id or name in a line, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// Longest message in a line, in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1024;

/// Sanitizes text for a log line, and cuts it to `longest` bytes before `…`. Characters that do not print are escaped
/// like `\u{202e}`: they could forge lines, move a terminal's cursor or reverse the text.
pub fn plain(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(longest);
    let mut line = String::with_capacity(end + 16);
    for character in text[..end].chars() {
        if is_printable(character) {
            line.push(character);
        } else {
            // Writing into a `String` cannot fail.
            let _ = write!(line, "\\u{{{:x}}}", u32::from(character));
        }
    }
    if end < text.len() {
        line.push('…');
    }
    Cow::Owned(line)
}

/// Reports whether `Debug` of the standard library prints a character unescaped.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // After a letter, where a combining mark is not escaped.
    let mut pair = [b'a'; 5];
    let end = 1 + character.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..end]).is_ok_and(|pair| pair.escape_debug().nth(1) == Some(character))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn printable_text_is_unchanged() {
        for text in ["", "r-1", "a \"b\" \\ 'c'", "ünï-côde ☃", "हिन्दी", "e\u{301}", "日本語"] {
            assert_eq!(plain(text, 256), text);
        }
    }

    #[test]
    fn unprintable_characters_are_escaped() {
        let kinds =
            ["\n\r\t\0\x1b\x7f\u{9b}", "\u{202e}\u{2066}\u{200f}\u{61c}", "\u{2028}\u{2029}", "\u{feff}\u{200b}\u{ad}"];
        for character in kinds.concat().chars() {
            assert_eq!(plain(&format!("a{character}b"), 256), format!("a\\u{{{:x}}}b", u32::from(character)));
        }
    }

    #[test]
    fn long_text_is_truncated_between_characters() {
        assert_eq!(plain("abcd", 4), "abcd");
        assert_eq!(plain("abcde", 4), "abcd…");
        assert_eq!(plain("abcü", 4), "abc…");
        assert_eq!(plain(&"\n".repeat(5), 4), "\\u{a}".repeat(4) + "…");
    }
}
