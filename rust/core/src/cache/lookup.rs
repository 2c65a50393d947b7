//! Cache of one model. It is dropped with the model, so a reload starts with an empty one.

use super::{
    Key,
    store::{Evicted, Found, Store, cost, owned},
};
use crate::{Caching, Error, InferResponse, Kind, Reply, Ticket, metrics::CacheMetrics, reply};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Cached responses of one model.
#[derive(Debug)]
pub struct Cache {
    inner: Mutex<Inner>,
    metrics: CacheMetrics,
    /// Maximum clients that wait for one computation.
    max_waiting: usize,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    /// Current computations, and the replies that wait for them.
    flights: HashMap<Key, Flight>,
}

#[derive(Debug)]
struct Flight {
    level: usize,
    waiting: Vec<Reply>,
}

/// Result of a lookup.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Lookup {
    /// A cached response.
    Hit(InferResponse),
    /// Not cached: compute it, and complete the lead.
    Lead(Lead),
    /// Another client computes it: await the ticket. After an error, compute it without the cache.
    Follow(Ticket),
    /// Not cached, and not to be awaited: compute it.
    Bypass,
}

/// A computation that others may wait for. Dropped without a response, it fails them, and they compute on their own.
#[derive(Debug)]
pub struct Lead {
    cache: Arc<Cache>,
    key: Key,
    /// The waiting replies were completed.
    landed: bool,
}

impl Cache {
    /// Creates an empty cache. At most `max_waiting` clients wait for one computation.
    pub fn new(caching: &Caching, max_waiting: usize, metrics: CacheMetrics) -> Self {
        let inner = Inner { store: Store::new(caching.max_bytes, caching.ttl), flights: HashMap::new() };
        Self { inner: Mutex::new(inner), metrics, max_waiting }
    }

    /// Looks up a response. `level` is the client's priority, counted from 0: it waits only for a computation of at
    /// least
    /// that priority.
    pub fn lookup(self: &Arc<Self>, key: Key, level: usize, now: Instant) -> Lookup {
        let mut inner = self.lock();
        match inner.store.find(&key, now) {
            Found::Fresh(response) => return Lookup::Hit(response),
            Found::Stale(bytes) => self.gone(Evicted { entries: 1, bytes }),
            Found::Nothing => {}
        }
        match inner.flights.get_mut(&key) {
            None => {
                inner.flights.insert(key, Flight { level, waiting: Vec::new() });
                Lookup::Lead(Lead { cache: Arc::clone(self), key, landed: false })
            }
            Some(flight) if flight.level <= level && flight.waiting.len() < self.max_waiting => {
                let (reply, ticket) = reply(None);
                flight.waiting.push(reply);
                Lookup::Follow(ticket)
            }
            Some(_) => Lookup::Bypass,
        }
    }

    /// Stores a response, unless it is too large. Returns the stored copy.
    pub fn store(&self, key: Key, response: &InferResponse, now: Instant) -> Option<InferResponse> {
        let bytes = cost(response);
        if !self.lock().store.fits(bytes) {
            return None;
        }
        // Copies without holding the lock.
        let kept = owned(response);
        let mut inner = self.lock();
        let before = inner.store.bytes();
        let gone = inner.store.put(key, kept.clone(), bytes, now);
        // Updates the gauge under the lock, so that both agree.
        self.metrics.bytes.inc_by((inner.store.bytes() + gone.bytes) as i64 - before as i64);
        self.gone(gone);
        Some(kept)
    }

    /// Metrics.
    pub fn metrics(&self) -> &CacheMetrics {
        &self.metrics
    }

    /// Number of entries, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.store.len(), inner.store.bytes())
    }

    fn gone(&self, gone: Evicted) {
        self.metrics.evictions.inc_by(gone.entries as u64);
        self.metrics.bytes.dec_by(gone.bytes as i64);
    }

    fn land(&self, key: &Key) -> Vec<Reply> {
        self.lock().flights.remove(key).map(|flight| flight.waiting).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // The metric outlives the model, which may be loaded again.
        let bytes = self.lock().store.bytes();
        self.metrics.bytes.dec_by(bytes as i64);
    }
}

impl Lead {
    /// Stores the response, and completes all waiting replies.
    pub fn complete(mut self, response: &InferResponse, now: Instant) {
        let kept = self.cache.store(self.key, response, now);
        self.landed = true;
        let given = kept.as_ref().unwrap_or(response);
        for waiting in self.cache.land(&self.key) {
            waiting.send(Ok(given.clone()));
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        // Another client may lead a new computation by now.
        if self.landed {
            return;
        }
        // Completes them without holding the lock.
        for waiting in self.cache.land(&self.key) {
            waiting.send(Err(Error::new(Kind::Cancelled, "who computed this has failed or left")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Datatype, InferRequest, ModelSpec, Protocol, Schedule, Tensor, Timings, cache::Identity};
    use bytes::Bytes;
    use smallvec::smallvec;

    fn key(number: u8) -> Key {
        let identity: Identity = vec![(String::new(), vec![number])];
        let (inputs, protocol) = (smallvec![], Protocol::InProcess);
        let request = InferRequest {
            inputs,
            rows: 1,
            metadata: None,
            deadline: None,
            protocol,
            schedule: Schedule::default(),
            takes_ownership: false,
            context: None,
            raw: None,
        };
        Key::new(&ModelSpec::default(), &request, &identity)
    }

    fn response(length: usize) -> InferResponse {
        let buffer = Buffer::Shared(Bytes::from(vec![7; length]));
        let tensor = Tensor::new(Datatype::Uint8, smallvec![length], buffer).unwrap();
        InferResponse { outputs: smallvec![tensor], parameters: Vec::new(), timings: Timings::default(), head: None }
    }

    fn cache(max_bytes: usize) -> Arc<Cache> {
        let caching = Caching { max_bytes, ttl: None, vary: Vec::new(), revision: None, per_client: true };
        Arc::new(Cache::new(&caching, 2, CacheMetrics::default()))
    }

    fn lead(cache: &Arc<Cache>, number: u8) -> Lead {
        match cache.lookup(key(number), 1, Instant::now()) {
            Lookup::Lead(lead) => lead,
            other => panic!("expected Lead, got {other:?}"),
        }
    }

    fn follow(cache: &Arc<Cache>, number: u8, level: usize) -> Ticket {
        match cache.lookup(key(number), level, Instant::now()) {
            Lookup::Follow(ticket) => ticket,
            other => panic!("expected Follow, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn equal_requests_in_flight_share_one_response() {
        let cache = cache(1 << 20);
        let lead = lead(&cache, 1);
        let (first, left) = (follow(&cache, 1, 1), follow(&cache, 1, 2));
        drop(left);
        lead.complete(&response(3), Instant::now());
        assert_eq!(first.await.unwrap().outputs[0].as_slice(), [7; 3]);
        assert!(matches!(cache.lookup(key(1), 1, Instant::now()), Lookup::Hit(_)));
        assert_eq!(cache.metrics().bytes.get(), cache.size().1 as i64);
    }

    #[tokio::test]
    async fn followers_fail_when_the_leading_request_is_dropped() {
        let cache = cache(1 << 20);
        let lost = lead(&cache, 1);
        let waiting = follow(&cache, 1, 1);
        drop(lost);
        assert!(waiting.await.is_err());
        // The next client leads a new computation.
        drop(lead(&cache, 1));
    }

    #[tokio::test]
    async fn responses_too_large_to_cache_still_reach_followers() {
        let cache = cache(100);
        let lead = lead(&cache, 1);
        let waiting = follow(&cache, 1, 1);
        lead.complete(&response(1000), Instant::now());
        assert_eq!(waiting.await.unwrap().outputs[0].as_slice().len(), 1000);
        assert_eq!(cache.size(), (0, 0));
    }

    #[test]
    fn requests_bypass_less_urgent_leaders_and_full_waiting_lists() {
        let cache = cache(1 << 20);
        let _lead = lead(&cache, 1);
        assert!(matches!(cache.lookup(key(1), 0, Instant::now()), Lookup::Bypass));
        let _both = (follow(&cache, 1, 1), follow(&cache, 1, 1));
        assert!(matches!(cache.lookup(key(1), 1, Instant::now()), Lookup::Bypass));
        assert!(matches!(cache.lookup(key(2), 1, Instant::now()), Lookup::Lead(_)));
    }

    #[test]
    fn bytes_gauge_matches_the_store_and_drops_to_zero_with_it() {
        let cache = cache(3 * cost(&response(100)));
        let metrics = cache.metrics().clone();
        for number in 0..10 {
            cache.store(key(number), &response(100), Instant::now());
            assert_eq!(metrics.bytes.get(), cache.size().1 as i64);
        }
        cache.store(key(9), &response(1), Instant::now());
        assert_eq!((metrics.bytes.get(), metrics.evictions.get()), (cache.size().1 as i64, 7));
        drop(cache);
        assert_eq!(metrics.bytes.get(), 0);
    }
}
