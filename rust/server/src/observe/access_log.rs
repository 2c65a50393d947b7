//! Access log: one line per request.

use super::timestamp::Stamp;
use penstock_core::Timings;
use std::{borrow::Cow, fmt::Write as _, time::Duration};

/// Longest id or name in a line, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// Longest message in a line, in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 1024;

/// Fields of one line.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) id: &'a str,
    pub(crate) protocol: &'static str,
    /// `None` for a request of no known model.
    pub(crate) model: Option<&'a str>,
    pub(crate) version: &'a str,
    /// `ok`, or the name of the error's kind.
    pub(crate) outcome: &'static str,
    /// HTTP status or gRPC code.
    pub(crate) status: i32,
    pub(crate) duration: Duration,
    pub(crate) timings: Timings,
    pub(crate) error: Option<&'a str>,
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Formats a line as text.
pub(crate) fn text_line(entry: &Entry<'_>, time: &Stamp) -> String {
    let mut line = String::with_capacity(160);
    let _ = write!(
        line,
        "{} {} {}/{} {} {} {:.2}ms queue={:.2}ms compute={:.2}ms batch={} id={}",
        time.text(),
        entry.protocol,
        plain(entry.model.unwrap_or("-"), MAX_NAME_BYTES),
        plain(entry.version, MAX_NAME_BYTES),
        entry.status,
        entry.outcome,
        milliseconds(entry.duration),
        milliseconds(entry.timings.queue),
        milliseconds(entry.timings.compute),
        entry.timings.batch_rows,
        plain(entry.id, MAX_NAME_BYTES),
    );
    if let Some(error) = entry.error {
        let _ = write!(line, " error=\"{}\"", plain(error, MAX_MESSAGE_BYTES));
    }
    line.push('\n');
    line
}

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

/// Formats a line as JSON.
pub(crate) fn json_line(entry: &Entry<'_>, time: &Stamp) -> String {
    let mut line = serde_json::json!({
        "time": time.json(),
        "id": plain(entry.id, MAX_NAME_BYTES),
        "protocol": entry.protocol,
        "model": entry.model.map(|model| plain(model, MAX_NAME_BYTES)),
        "version": plain(entry.version, MAX_NAME_BYTES),
        "outcome": entry.outcome,
        "status": entry.status,
        "duration_ms": milliseconds(entry.duration),
        "queue_ms": milliseconds(entry.timings.queue),
        "compute_ms": milliseconds(entry.timings.compute),
        "batch_rows": entry.timings.batch_rows,
        "error": entry.error.map(|error| plain(error, MAX_MESSAGE_BYTES)),
    })
    .to_string();
    line.push('\n');
    line
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
