//! Generated text in chunks: UTF-8 and stop texts across chunks.

use super::{stops::Stops, utf8::Utf8};

/// Decoder of one generated text, up to the first of its stop texts.
#[derive(Debug)]
pub(super) struct TextDecoder {
    utf8: Utf8,
    /// `None` without stop texts.
    stops: Option<Stops>,
    /// Decoded text before it is searched for stop texts.
    decoded: String,
}

impl TextDecoder {
    /// A decoder that ends the text before the first of `stops`. Empty ones are ignored.
    pub(super) fn new(stops: Vec<String>) -> Self {
        Self { utf8: Utf8::default(), stops: Stops::new(stops), decoded: String::new() }
    }

    /// Appends the text that a chunk completes. A character that is cut, and what may begin a stop text, is held back.
    pub(super) fn feed(&mut self, chunk: &[u8], out: &mut String) {
        let Self { utf8, stops, decoded } = self;
        let Some(stops) = stops else { return utf8.feed(chunk, out) };
        decoded.clear();
        utf8.feed(chunk, decoded);
        stops.feed(decoded, out);
    }

    /// Appends the text that is held back, at the end of the chunks of a text. More text may follow.
    pub(super) fn finish(&mut self, out: &mut String) {
        let Self { utf8, stops, decoded } = self;
        let Some(stops) = stops else { return utf8.finish(out) };
        decoded.clear();
        utf8.finish(decoded);
        stops.feed(decoded, out);
        stops.finish(out);
    }

    /// Returns the stop text that was found. Further chunks are ignored.
    pub(super) fn stop(&self) -> Option<&str> {
        self.stops.as_ref()?.found()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(chunks: &[&[u8]], stops: &[&str]) -> String {
        let mut decoder = TextDecoder::new(stops.iter().map(|&stop| stop.to_owned()).collect());
        let mut text = String::new();
        chunks.iter().for_each(|chunk| decoder.feed(chunk, &mut text));
        decoder.finish(&mut text);
        text
    }

    #[test]
    fn stop_text_is_found_across_cut_characters() {
        assert_eq!(decode(&[b"a\xf0\x9f", b"\x98\x80b", b"c"], &["\u{1f600}b"]), "a");
        assert_eq!(decode(&[b"a\xf0\x9f", b"\x98\x81b"], &["\u{1f600}b"]), "a\u{1f601}b");
    }

    #[test]
    fn text_that_ends_within_a_character_may_end_with_a_stop_text() {
        assert_eq!(decode(&[b"a\xf0\x9f"], &["\u{fffd}"]), "a");
        assert_eq!(decode(&[b"a\xf0\x9f"], &[]), "a\u{fffd}");
    }

    #[test]
    fn empty_stop_text_is_ignored() {
        assert_eq!(decode(&[b"one"], &[""]), "one");
    }
}
