//! Server-sent events: the `data` of each, from chunks of any size.

use penstock_core::{Error, Kind, Result};

/// Parser of a `text/event-stream`.
///
/// Comments and fields other than `data` are skipped: inference servers give them no meaning.
///
/// ```
/// use penstock_wire::rest::EventDecoder;
///
/// let mut decoder = EventDecoder::new(1024);
/// decoder.push(b"data: {\"a\":1}\n\nda")?;
/// assert_eq!(decoder.next().as_deref(), Some(&b"{\"a\":1}"[..]));
/// assert_eq!(decoder.next(), None);
/// # Ok::<(), penstock_core::Error>(())
/// ```
#[derive(Debug)]
pub struct EventDecoder {
    /// Incomplete line, after consumed bytes.
    pending: Vec<u8>,
    /// Up to where `pending` is done with.
    done: usize,
    /// Lines of `data` of the current event.
    data: Vec<u8>,
    has_data: bool,
    max_event: usize,
}

impl EventDecoder {
    /// A decoder of events of at most `max_event` bytes.
    pub fn new(max_event: usize) -> Self {
        Self { pending: Vec::new(), done: 0, data: Vec::new(), has_data: false, max_event }
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// `TooLarge` when an event is longer than the limit. Take all events before the next push.
    pub fn push(&mut self, chunk: &[u8]) -> Result<()> {
        self.pending.drain(..self.done);
        self.done = 0;
        if self.pending.len() + self.data.len() > self.max_event {
            let error = format!("an event of the stream has more than {} bytes", self.max_event);
            return Err(Error::new(Kind::TooLarge, error));
        }
        self.pending.extend_from_slice(chunk);
        Ok(())
    }

    /// The data of the next whole event.
    #[expect(clippy::should_implement_trait, reason = "more may come after the last")]
    pub fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let rest = &self.pending[self.done..];
            let end = memchr::memchr2(b'\n', b'\r', rest)?;
            // A carriage return at the end of a chunk may have its line feed in the next.
            let ending = match (rest[end], rest.get(end + 1)) {
                (b'\r', Some(b'\n')) => 2,
                (b'\r', None) => return None,
                _ => 1,
            };
            let line = &rest[..end];
            self.done += end + ending;
            if line.is_empty() {
                if std::mem::take(&mut self.has_data) {
                    return Some(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix(b"data").and_then(field) {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(data);
            }
        }
    }

    /// Returns whether the stream may end here: no event is incomplete.
    pub fn is_between_events(&self) -> bool {
        self.done == self.pending.len() && !self.has_data
    }
}

/// The value behind a field's name.
fn field(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [] => Some(rest),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(chunks: &[&[u8]]) -> (Vec<String>, bool) {
        let mut decoder = EventDecoder::new(100);
        let mut found = Vec::new();
        for chunk in chunks {
            decoder.push(chunk).unwrap();
            while let Some(event) = decoder.next() {
                found.push(String::from_utf8(event).unwrap());
            }
        }
        (found, decoder.is_between_events())
    }

    #[test]
    fn events_are_parsed_with_any_line_ending() {
        let stream = b": hello\nevent: x\ndata: a\n\ndata:b\r\ndata: c\r\n\r\n\n\ndata\n\nid: 1\n\ndatum: 1\n\n";
        let expected = ["a", "b\nc", ""].map(str::to_owned).to_vec();
        assert_eq!(events(&[stream]), (expected.clone(), true));
        for cut in 0..stream.len() {
            let (first, second) = stream.split_at(cut);
            assert_eq!(events(&[first, second]), (expected.clone(), true), "{cut}");
        }
    }

    #[test]
    fn truncated_event_is_detected() {
        assert_eq!(events(&[b"data: a\n\ndata: b\n"]), (vec!["a".to_owned()], false));
        assert_eq!(events(&[b"data: a"]), (vec![], false));
    }

    #[test]
    fn oversized_event_is_refused() {
        let mut decoder = EventDecoder::new(100);
        let refused = (0..9).find_map(|_| {
            let pushed = decoder.push(&[b'a'; 50]);
            assert_eq!(decoder.next(), None);
            pushed.err()
        });
        assert_eq!(refused.unwrap().message(), "an event of the stream has more than 100 bytes");
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_events(bytes in proptest::collection::vec(proptest::sample::select(b"data: \r\n\x00".to_vec()), 0..60), cut in 0usize..60) {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(events(&[&bytes]), events(&[first, second]));
        }
    }
}
