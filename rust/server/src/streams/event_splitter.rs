//! Splits the bytes of an event stream into events.

use super::Token;
use bytes::{Bytes, BytesMut};
use std::io::Write as _;

/// Time, in milliseconds, after which browsers connect again.
const RETRY: &[u8] = b"retry: 1000\n";

/// Bytes of an event stream that arrive in any pieces, as complete events with their ids.
///
/// Blocks of comments are left out: with an id, clients may take them for events.
#[derive(Debug)]
pub(crate) struct EventSplitter {
    token: Token,
    /// Number of the last event.
    number: u64,
    /// Bytes that are not an event yet.
    pending: BytesMut,
    /// Begin of the first line that is not complete.
    line: usize,
    /// A complete line of `pending` is not a comment.
    has_fields: bool,
}

impl EventSplitter {
    /// Creates a splitter for the stream of a token.
    pub(crate) fn new(token: Token) -> Self {
        Self { token, number: 0, pending: BytesMut::new(), line: 0, has_fields: false }
    }

    /// Returns the bytes that are not an event yet.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Adds bytes, and passes the events that they complete to `each`.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Bytes)) {
        let mut from = self.pending.len();
        self.pending.extend_from_slice(bytes);
        while let Some(at) = memchr::memchr(b'\n', &self.pending[from..]).map(|at| from + at) {
            let line = &self.pending[self.line..at];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                self.has_fields |= line[0] != b':';
                (self.line, from) = (at + 1, at + 1);
                continue;
            }
            let block = self.pending.split_to(at + 1);
            (self.line, from) = (0, 0);
            if std::mem::take(&mut self.has_fields) {
                each(self.event(&block));
            }
        }
    }

    /// Passes the bytes at the end of the stream to `each`, if they are a part of an event.
    pub(crate) fn finish(&mut self, each: impl FnOnce(Bytes)) {
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() {
            each(self.event(&rest));
        }
    }

    fn event(&mut self, block: &[u8]) -> Bytes {
        self.number += 1;
        let mut event = Vec::with_capacity(block.len() + 64);
        if self.number == 1 {
            event.extend_from_slice(RETRY);
        }
        // Before the event's lines: an id that the handler writes counts, and it resumes by itself.
        let _ = writeln!(event, "id: {}-{}", self.token, self.number);
        event.extend_from_slice(block);
        event.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(token: Token, pieces: &[&[u8]]) -> Vec<String> {
        let (mut splitter, mut events) = (EventSplitter::new(token), Vec::new());
        let mut text = |event: Bytes| events.push(String::from_utf8(event.to_vec()).unwrap());
        for piece in pieces {
            splitter.push(piece, &mut text);
        }
        splitter.finish(&mut text);
        events
    }

    #[test]
    fn each_event_has_an_id_and_the_first_one_the_retry_time() {
        let token = Token::random().unwrap();
        let events =
            split(token, &[b"data: a\n\nevent: x\r\nda", b"ta: b\r\n\r\n\n: comment\n\ndata: c\n\ndata: part"]);
        assert_eq!(
            events,
            [
                format!("retry: 1000\nid: {token}-1\ndata: a\n\n"),
                format!("id: {token}-2\nevent: x\r\ndata: b\r\n\r\n"),
                format!("id: {token}-3\ndata: c\n\n"),
                format!("id: {token}-4\ndata: part"),
            ]
        );
    }

    proptest! {
        #[test]
        fn cuts_do_not_change_the_events(text in "(data|:|\r?\n|a){0,40}", cuts in prop::collection::vec(0usize..200, 0..6)) {
            let token = Token::random().unwrap();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            prop_assert_eq!(split(token, &pieces), split(token, &[text.as_bytes()]));
        }
    }
}
