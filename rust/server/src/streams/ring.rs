//! Events of a stream: those that its client may want again, and those that are not sent.

use bytes::Bytes;
use std::collections::VecDeque;

/// Events that are kept after they were sent, at most.
pub(crate) const KEPT_EVENTS: usize = 1024;
/// Their bytes.
pub(crate) const KEPT_BYTES: usize = 256 << 10;
/// Events that wait for a reader; then the handler is paused.
pub(crate) const WAITING_EVENTS: usize = 256;
/// Their bytes, above which the handler is paused.
pub(crate) const WAITING_BYTES: usize = 64 << 10;

/// Consecutive events. The oldest ones that were sent are dropped beyond a bound.
#[derive(Debug, Default)]
pub(crate) struct EventRing {
    events: VecDeque<Bytes>,
    /// Number of dropped events: that of the one before the first in `events`.
    dropped: u64,
    /// Events of `events` that were sent.
    sent: usize,
    sent_bytes: usize,
    waiting_bytes: usize,
}

/// Reason why a stream cannot continue after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// An event after it is not kept any more; with the number of the first one that is.
    Dropped(u64),
    /// There is no such event yet; with the number of the last one.
    Ahead(u64),
}

impl EventRing {
    /// Appends an event.
    pub(crate) fn push(&mut self, event: Bytes) {
        self.waiting_bytes += event.len();
        self.events.push_back(event);
    }

    /// Reports whether the handler has to pause.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() - self.sent >= WAITING_EVENTS || self.waiting_bytes >= WAITING_BYTES
    }

    /// Reports whether an event waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.sent < self.events.len()
    }

    /// Returns the bytes of all events.
    pub(crate) fn bytes(&self) -> usize {
        self.sent_bytes + self.waiting_bytes
    }

    /// Appends waiting events to `out` until it has `limit` bytes or more, and counts them as sent.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>, limit: usize) {
        while out.len() < limit
            && let Some(event) = self.events.get(self.sent)
        {
            out.extend_from_slice(event);
            self.sent += 1;
            self.sent_bytes += event.len();
            self.waiting_bytes -= event.len();
        }
        self.trim(KEPT_EVENTS, KEPT_BYTES);
    }

    /// Drops all events that were sent.
    pub(crate) fn forget_sent(&mut self) {
        self.trim(0, 0);
    }

    fn trim(&mut self, events: usize, bytes: usize) {
        while (self.sent > events || self.sent_bytes > bytes)
            && self.sent > 0
            && let Some(oldest) = self.events.pop_front()
        {
            self.dropped += 1;
            self.sent -= 1;
            self.sent_bytes -= oldest.len();
        }
    }

    /// Continues after the event of a number: those behind it wait again.
    ///
    /// # Errors
    /// [`Unreachable`], which changes nothing.
    pub(crate) fn rewind(&mut self, after: u64) -> Result<(), Unreachable> {
        let Some(sent) = after.checked_sub(self.dropped) else { return Err(Unreachable::Dropped(self.dropped + 1)) };
        let last = self.dropped + self.events.len() as u64;
        let Some(sent) = usize::try_from(sent).ok().filter(|_| after <= last) else {
            return Err(Unreachable::Ahead(last));
        };
        let all = self.bytes();
        self.sent_bytes = self.events.iter().take(sent).map(Bytes::len).sum();
        (self.sent, self.waiting_bytes) = (sent, all - self.sent_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(ring: &mut EventRing, limit: usize) -> String {
        let mut out = Vec::new();
        ring.take(&mut out, limit);
        String::from_utf8(out).unwrap()
    }

    fn ring(events: usize) -> EventRing {
        let mut ring = EventRing::default();
        (1..=events).for_each(|number| ring.push(format!("{number};").into()));
        ring
    }

    #[test]
    fn reader_continues_after_any_kept_event() {
        let mut ring = ring(5);
        assert_eq!(taken(&mut ring, 3), "1;2;");
        for (after, expected) in [(0, "1;2;3;4;5;"), (5, ""), (3, "4;5;"), (4, "5;")] {
            ring.rewind(after).unwrap();
            assert_eq!(taken(&mut ring, 100), expected);
        }
        assert_eq!(ring.rewind(6), Err(Unreachable::Ahead(5)));
        assert_eq!(ring.rewind(u64::MAX), Err(Unreachable::Ahead(5)));
        ring.forget_sent();
        assert_eq!(ring.rewind(4), Err(Unreachable::Dropped(6)));
        assert_eq!(ring.rewind(5), Ok(()));
        assert_eq!(ring.bytes(), 0);
    }

    #[test]
    fn waiting_events_pause_the_handler_and_are_never_dropped() {
        let mut many = ring(WAITING_EVENTS);
        assert!(many.is_full() && !ring(WAITING_EVENTS - 1).is_full());
        many.forget_sent();
        assert_eq!(taken(&mut many, usize::MAX).split(';').count(), WAITING_EVENTS + 1);
        assert!(!many.is_full() && !many.has_waiting());
        let mut large = EventRing::default();
        large.push(vec![0; WAITING_BYTES].into());
        assert!(large.is_full());
    }

    #[test]
    fn sent_events_are_bounded_by_count_and_bytes() {
        let mut ring = ring(KEPT_EVENTS + 7);
        taken(&mut ring, usize::MAX);
        assert_eq!(ring.rewind(6), Err(Unreachable::Dropped(8)));
        assert_eq!(ring.rewind(7), Ok(()));
        taken(&mut ring, usize::MAX);
        ring.push(vec![b'a'; KEPT_BYTES + 1].into());
        taken(&mut ring, usize::MAX);
        assert_eq!(ring.bytes(), 0);
    }

    proptest! {
        #[test]
        fn each_event_is_read_once_across_resumptions(steps in prop::collection::vec((1usize..40, 0usize..60, 0u64..9), 1..60)) {
            let (mut ring, mut pushed, mut read) = (EventRing::default(), 0_u64, Vec::<u64>::new());
            for (events, limit, lost) in steps {
                for _ in 0..events {
                    pushed += 1;
                    ring.push(format!("{pushed};").into());
                }
                let text = taken(&mut ring, limit);
                let numbers = text.split_terminator(';').map(|number| number.parse::<u64>().unwrap());
                // The connection loses the last ones.
                let numbers: Vec<u64> = numbers.collect();
                let kept = numbers.len().saturating_sub(lost as usize);
                read.extend(&numbers[..kept]);
                ring.rewind(read.last().copied().unwrap_or(0)).unwrap();
            }
            let text = taken(&mut ring, usize::MAX);
            read.extend(text.split_terminator(';').map(|number| number.parse::<u64>().unwrap()));
            prop_assert_eq!(read, (1..=pushed).collect::<Vec<_>>());
        }
    }
}
