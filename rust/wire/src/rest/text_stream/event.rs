//! Events of one text each, which differ in the text only.

use crate::json::string;

/// The constant parts of such events: the bytes before and after the text's JSON string.
///
/// ```
/// use penstock_wire::rest::text_stream::TextEvent;
///
/// let event = TextEvent::new(r#"data: {"text":"#, "}\n\n");
/// let mut out = Vec::new();
/// event.write(&mut out, "a \"word\"");
/// assert_eq!(out, b"data: {\"text\":\"a \\\"word\\\"\"}\n\n");
/// ```
#[derive(Clone, Debug)]
pub struct TextEvent {
    before: Box<[u8]>,
    after: Box<[u8]>,
}

impl TextEvent {
    /// An event of its parts.
    #[must_use]
    pub fn new(before: &str, after: &str) -> Self {
        Self { before: before.as_bytes().into(), after: after.as_bytes().into() }
    }

    /// Appends the event of `text`.
    pub fn write(&self, out: &mut Vec<u8>, text: &str) {
        out.reserve(self.before.len() + text.len() + 2 + self.after.len());
        out.extend_from_slice(&self.before);
        string::write(out, text);
        out.extend_from_slice(&self.after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_is_one_line_of_json(text in any::<String>()) {
            let mut out = Vec::new();
            TextEvent::new("", "").write(&mut out, &text);
            prop_assert!(!out.contains(&b'\n') && !out.contains(&b'\r'));
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
