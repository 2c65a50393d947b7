//! Generated text in chunks: UTF-8 and stop texts across chunks, and events of one text each.

mod event;
mod stops;
mod utf8;

pub use event::TextEvent;
use stops::Stops;
use utf8::Utf8;

/// Decoder of one generated text, up to the first of its stop texts.
///
/// ```
/// use penstock_wire::rest::text_stream::TextDecoder;
///
/// let mut decoder = TextDecoder::new(vec!["END".to_owned()]);
/// let mut text = String::new();
/// for chunk in [&b"caf\xc3"[..], b"\xa9 E", b"ND and more"] {
///     decoder.feed(chunk, &mut text);
/// }
/// assert_eq!((&*text, decoder.has_stopped()), ("café ", true));
/// ```
#[derive(Debug)]
pub struct TextDecoder {
    utf8: Utf8,
    /// `None` without stop texts.
    stops: Option<Stops>,
    /// Decoded text before it is searched for stop texts.
    decoded: String,
}

impl TextDecoder {
    /// A decoder that ends the text before the first of `stops`. Empty ones are ignored.
    #[must_use]
    pub fn new(stops: Vec<String>) -> Self {
        Self { utf8: Utf8::default(), stops: Stops::new(stops), decoded: String::new() }
    }

    /// Appends the text that a chunk completes. A character that is cut, and what may begin a stop text, is held back.
    pub fn feed(&mut self, chunk: &[u8], out: &mut String) {
        let Self { utf8, stops, decoded } = self;
        let Some(stops) = stops else { return utf8.feed(chunk, out) };
        decoded.clear();
        utf8.feed(chunk, decoded);
        stops.feed(decoded, out);
    }

    /// Appends the text that is held back, at the end of all chunks.
    pub fn finish(&mut self, out: &mut String) {
        let Self { utf8, stops, decoded } = self;
        let Some(stops) = stops else { return utf8.finish(out) };
        decoded.clear();
        utf8.finish(decoded);
        stops.feed(decoded, out);
        stops.finish(out);
    }

    /// Returns whether a stop text was found. Further chunks are ignored.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.stops.as_ref().is_some_and(Stops::has_stopped)
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
