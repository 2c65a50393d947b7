//! UTF-8 in chunks that may end within a character.

/// Decoder of such chunks. Invalid bytes become U+FFFD, one for each maximal part of a character.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    /// Bytes of an incomplete character: three at most.
    pending: Vec<u8>,
}

impl Utf8 {
    /// Appends the characters that `chunk` completes.
    pub(super) fn feed(&mut self, chunk: &[u8], out: &mut String) {
        if self.pending.is_empty() {
            return self.decode(chunk, out);
        }
        let mut joined = std::mem::take(&mut self.pending);
        joined.extend_from_slice(chunk);
        self.decode(&joined, out);
    }

    /// Appends U+FFFD for an incomplete character at the end.
    pub(super) fn finish(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.pending).is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn decode(&mut self, mut bytes: &[u8], out: &mut String) {
        loop {
            let error = match std::str::from_utf8(bytes) {
                Ok(text) => return out.push_str(text),
                Err(error) => error,
            };
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            out.push_str(std::str::from_utf8(valid).unwrap_or_default());
            let Some(invalid) = error.error_len() else {
                self.pending.extend_from_slice(rest);
                return;
            };
            out.push(char::REPLACEMENT_CHARACTER);
            bytes = &rest[invalid..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> String {
        let (mut utf8, mut out) = (Utf8::default(), String::new());
        chunks.into_iter().for_each(|chunk| utf8.feed(chunk, &mut out));
        utf8.finish(&mut out);
        out
    }

    #[test]
    fn characters_are_joined_across_chunks() {
        let text = "é€\u{1f600}!";
        assert_eq!(decode(text.as_bytes().chunks(1)), text);
        assert_eq!(decode([&b"\xe2\x82"[..], b"", b"\xac"]), "€");
    }

    #[test]
    fn invalid_bytes_are_replaced() {
        assert_eq!(decode([&b"a\xff"[..], b"b\xe2\x82", b"c"]), "a\u{fffd}b\u{fffd}c");
        assert_eq!(decode([&b"\xf0\x9f"[..]]), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn chunks_do_not_change_the_text(bytes in proptest::collection::vec(any::<u8>(), 0..24), size in 1_usize..5) {
            prop_assert_eq!(decode(bytes.chunks(size)), String::from_utf8_lossy(&bytes));
        }
    }
}
