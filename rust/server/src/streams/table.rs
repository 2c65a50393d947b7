//! The streams of a server, by their tokens.

use super::{event_id::Token, owner::Owner, stream::ResumableStream};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Streams that run or are kept, at most; further ones cannot be resumed.
const MAX_STREAMS: usize = 16_384;
/// Streams that have ended and are kept, at most; then the oldest one is forgotten.
const MAX_ENDED: usize = 4096;
/// Bytes of their events.
const MAX_ENDED_BYTES: usize = 64 << 20;

/// Streams by token.
#[derive(Debug, Default)]
pub(crate) struct StreamTable(Mutex<Streams>);

#[derive(Debug, Default)]
struct Streams {
    by_token: HashMap<Token, Arc<ResumableStream>>,
    /// Those that have ended, oldest first, with the bytes of their events.
    ended: VecDeque<(Token, usize)>,
    ended_bytes: usize,
}

impl StreamTable {
    /// Adds a stream. Returns false if there is no room.
    pub(crate) fn add(&self, stream: &Arc<ResumableStream>) -> bool {
        let mut streams = self.lock();
        let has_room = streams.by_token.len() < MAX_STREAMS;
        if has_room {
            streams.by_token.insert(stream.token, Arc::clone(stream));
        }
        has_room
    }

    /// Finds a stream of a client.
    pub(crate) fn find(&self, token: Token, owner: &Owner) -> Option<Arc<ResumableStream>> {
        self.lock().by_token.get(&token).filter(|stream| stream.place.owner == *owner).cloned()
    }

    /// Removes a stream.
    pub(crate) fn remove(&self, token: Token) {
        let mut streams = self.lock();
        let removed = streams.by_token.remove(&token);
        streams.forget_removed();
        drop(streams);
        drop(removed);
    }

    /// Records that a stream has ended with events of so many bytes. Beyond the bounds the oldest ones are forgotten.
    pub(crate) fn ended(&self, token: Token, bytes: usize) {
        let mut streams = self.lock();
        streams.ended.push_back((token, bytes));
        streams.ended_bytes += bytes;
        let mut dropped = Vec::new();
        while streams.ended.len() > MAX_ENDED || streams.ended_bytes > MAX_ENDED_BYTES {
            let Some((oldest, bytes)) = streams.ended.pop_front() else { break };
            streams.ended_bytes -= bytes;
            dropped.extend(streams.by_token.remove(&oldest));
        }
        drop(streams);
        dropped.iter().for_each(|stream| stream.forget());
    }

    /// Has all drivers look again: the server drains.
    pub(crate) fn wake_drivers(&self) {
        let streams: Vec<_> = self.lock().by_token.values().cloned().collect();
        streams.iter().for_each(|stream| stream.wake_driver());
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Streams {
    /// Forgets the oldest streams that were removed. They end and expire in about the same order.
    fn forget_removed(&mut self) {
        while let Some(&(token, bytes)) = self.ended.front()
            && !self.by_token.contains_key(&token)
        {
            self.ended.pop_front();
            self.ended_bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::stream::{Ending, NextStep, StreamPlace, unknown_stream},
        *,
    };
    use bytes::Bytes;
    use http::HeaderMap;
    use penstock_core::{Kind, metrics::Metrics};
    use std::{
        task::{Context, Poll, Waker},
        time::Duration,
    };

    fn stream(metrics: &Arc<Metrics>) -> Arc<ResumableStream> {
        let place = StreamPlace {
            path: "/p".into(),
            model: "m".into(),
            owner: Owner::Bearer,
            headers: HeaderMap::new(),
            keep: Duration::from_secs(60),
        };
        ResumableStream::new(Token::random().unwrap(), place, metrics).0
    }

    #[test]
    fn streams_of_others_are_unknown() {
        let (table, stream) = (StreamTable::default(), stream(&Arc::default()));
        assert!(table.add(&stream));
        assert!(table.find(stream.token, &Owner::Bearer).is_some());
        assert!(table.find(stream.token, &Owner::Key("a".into())).is_none());
        table.remove(stream.token);
        assert!(table.find(stream.token, &Owner::Bearer).is_none());
    }

    #[test]
    fn ended_streams_are_bounded_by_bytes_and_the_oldest_is_forgotten() {
        let (table, metrics) = (StreamTable::default(), Arc::<Metrics>::default());
        let streams = [stream(&metrics), stream(&metrics), stream(&metrics)];
        let (reader, cx) = (streams[0].attach(0).unwrap(), Context::from_waker(Waker::noop()));
        streams[0].push([Bytes::from_static(b"a")], 1000);
        for stream in &streams {
            table.add(stream);
            stream.end(Ending::Complete);
            table.ended(stream.token, MAX_ENDED_BYTES / 2);
        }
        assert!(table.find(streams[0].token, &Owner::Bearer).is_none());
        assert_eq!(streams[0].attach(0).unwrap_err().message(), unknown_stream().message());
        assert!(streams[2].attach(0).is_ok());
        // Its reader has all events, and then it is over.
        assert!(matches!(streams[0].next_step(&cx, false), NextStep::Wait(None)));
        assert!(matches!(streams[0].poll_events(reader, &cx, 100), Poll::Ready(Some(Ok(_)))));
        assert!(matches!(streams[0].poll_events(reader, &cx, 100), Poll::Ready(None)));
        streams[0].release(reader);
        assert!(matches!(streams[0].next_step(&cx, false), NextStep::Stop));
        // What was removed counts no more.
        table.remove(streams[1].token);
        table.ended(streams[1].token, MAX_ENDED_BYTES / 2);
        assert!(table.find(streams[2].token, &Owner::Bearer).is_some());
    }

    #[test]
    fn events_are_counted_as_memory_until_the_stream_is_dropped() {
        let metrics = Arc::<Metrics>::default();
        let stream = stream(&metrics);
        let cx = Context::from_waker(Waker::noop());
        stream.push([Bytes::from_static(b"abc"), Bytes::from_static(b"de")], 1000);
        assert_eq!(metrics.body_bytes.get(), 5);
        let attachment = stream.attach(0).unwrap();
        assert!(stream.poll_events(attachment, &cx, 100).is_ready());
        assert_eq!(metrics.body_bytes.get(), 5);
        // Above the limit on memory, nothing is kept that was sent.
        stream.push([Bytes::from_static(b"f")], 3);
        assert_eq!(metrics.body_bytes.get(), 1);
        assert_eq!(stream.attach(0).unwrap_err().kind(), Kind::NotFound);
        drop(stream);
        assert_eq!(metrics.body_bytes.get(), 0);
    }

    #[test]
    fn stream_without_a_reader_stops_after_its_time_or_at_a_drain() {
        let cx = Context::from_waker(Waker::noop());
        let stream = stream(&Arc::default());
        let first = stream.attach(0).unwrap();
        assert!(matches!(stream.next_step(&cx, true), NextStep::Pull(None)));
        let second = stream.attach(0).unwrap();
        // The first one has no stream any more.
        stream.release(first);
        assert!(matches!(stream.next_step(&cx, true), NextStep::Pull(None)));
        stream.release(second);
        assert!(matches!(stream.next_step(&cx, false), NextStep::Pull(Some(_))));
        assert!(matches!(stream.next_step(&cx, true), NextStep::Stop));
        assert_eq!(stream.attach(0).unwrap_err().kind(), Kind::NotFound);
    }
}
