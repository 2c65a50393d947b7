//! Entries of a cache, limited in bytes: the least recently used is evicted first.
//!
//! On the `lru` crate. moka 0.12 evicts later, in batches: after 30 inserts into a cache for 10 entries all 30 are there
//! and none counts as evicted, so neither the bound nor the metrics would be exact. It also brings 16 crates.

use super::Key;
use crate::{Buffer, InferResponse, Parameter, Parameters, Tensor, Timings};
use bytes::Bytes;
use lru::LruCache;
use std::{
    mem::size_of,
    time::{Duration, Instant},
};

/// Approximate bytes of an entry in addition to tensors and parameters: its two structs, and its slots in table and
/// list.
pub(super) const OVERHEAD: usize = size_of::<Entry>() + size_of::<Key>() + 64;

#[derive(Debug)]
struct Entry {
    response: InferResponse,
    bytes: usize,
    kept: Instant,
}

/// Result of a search.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is matched at once and kept nowhere")]
pub(super) enum Found {
    Fresh(InferResponse),
    /// Expired, and removed; its bytes are free again.
    Stale(usize),
    Nothing,
}

/// Evicted entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evicted {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

/// Responses by key.
#[derive(Debug)]
pub(super) struct Store {
    entries: LruCache<Key, Entry>,
    bytes: usize,
    max_bytes: usize,
    ttl: Option<Duration>,
}

impl Store {
    pub(super) fn new(max_bytes: usize, ttl: Option<Duration>) -> Self {
        Self { entries: LruCache::unbounded(), bytes: 0, max_bytes, ttl }
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Response of a key; its tensors share the stored memory.
    pub(super) fn find(&mut self, key: &Key, now: Instant) -> Found {
        let Some(entry) = self.entries.get(key) else { return Found::Nothing };
        if self.ttl.is_none_or(|ttl| now.saturating_duration_since(entry.kept) < ttl) {
            return Found::Fresh(entry.response.clone());
        }
        let freed = self.entries.pop(key).map_or(0, |entry| entry.bytes);
        self.bytes -= freed;
        Found::Stale(freed)
    }

    /// Returns true if a response of `bytes` can be stored.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        bytes <= self.max_bytes
    }

    /// Stores a response of `bytes` that fits; returns the evicted entries.
    pub(super) fn put(&mut self, key: Key, response: InferResponse, bytes: usize, now: Instant) -> Evicted {
        if let Some(old) = self.entries.put(key, Entry { response, bytes, kept: now }) {
            self.bytes -= old.bytes;
        }
        self.bytes += bytes;
        let mut gone = Evicted::default();
        // The new entry is evicted last, and it fits alone.
        while self.bytes > self.max_bytes
            && let Some((_, entry)) = self.entries.pop_lru()
        {
            self.bytes -= entry.bytes;
            gone.entries += 1;
            gone.bytes += entry.bytes;
        }
        gone
    }
}

/// Bytes of an entry.
pub(super) fn cost(response: &InferResponse) -> usize {
    let tensors = response.outputs.iter().map(|tensor| size_of::<Tensor>() + tensor.as_slice().len());
    OVERHEAD + tensors.sum::<usize>() + weight(&response.parameters)
}

fn weight(parameters: &Parameters) -> usize {
    parameters.iter().map(|(name, value)| size_of::<(String, Parameter)>() + name.len() + value_weight(value)).sum()
}

fn value_weight(value: &Parameter) -> usize {
    match value {
        Parameter::String(text) => text.len(),
        Parameter::List(values) => values.iter().map(|value| size_of::<Parameter>() + value_weight(value)).sum(),
        Parameter::Bool(_) | Parameter::Int(_) | Parameter::Uint(_) | Parameter::Float(_) => 0,
    }
}

/// Copies a response. The original may be a view of a whole batch, of a Python array or of another process's memory,
/// and
/// would keep all of it alive.
pub(super) fn owned(response: &InferResponse) -> InferResponse {
    let copy = |tensor: &Tensor| {
        if tensor.is_absent() {
            return tensor.clone();
        }
        let bytes = Bytes::copy_from_slice(tensor.as_slice());
        Tensor::from_checked(tensor.datatype(), tensor.shape().into(), Buffer::Shared(bytes))
    };
    let outputs = response.outputs.iter().map(copy).collect();
    // A cache hit waits for nothing.
    InferResponse { outputs, parameters: response.parameters.clone(), timings: Timings::default(), head: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Datatype, InferRequest, ModelSpec, Protocol, Schedule, cache::Identity};
    use proptest::prelude::*;
    use smallvec::smallvec;

    fn key(number: u64) -> Key {
        let identity: Identity = vec![(String::new(), number.to_le_bytes().to_vec())];
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
        let buffer = Buffer::Shared(vec![7; length].into());
        let tensor = Tensor::new(Datatype::Uint8, smallvec![length], buffer).unwrap();
        InferResponse { outputs: smallvec![tensor], parameters: Vec::new(), timings: Timings::default(), head: None }
    }

    fn put(store: &mut Store, number: u64, length: usize, now: Instant) -> Evicted {
        let response = response(length);
        let bytes = cost(&response);
        store.put(key(number), response, bytes, now)
    }

    fn contains(store: &mut Store, number: u64, now: Instant) -> bool {
        matches!(store.find(&key(number), now), Found::Fresh(_))
    }

    #[test]
    fn least_recently_used_entry_is_evicted_first() {
        let now = Instant::now();
        let one = cost(&response(100));
        let mut store = Store::new(2 * one, None);
        assert_eq!(put(&mut store, 1, 100, now), Evicted::default());
        assert_eq!(put(&mut store, 2, 100, now), Evicted::default());
        assert!(contains(&mut store, 1, now));
        assert_eq!(put(&mut store, 3, 100, now), Evicted { entries: 1, bytes: one });
        assert!(contains(&mut store, 1, now) && contains(&mut store, 3, now) && !contains(&mut store, 2, now));
        assert!(!store.fits(2 * one + 1));
    }

    #[test]
    fn expired_entry_is_removed_on_lookup() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut store = Store::new(1 << 20, Some(second));
        put(&mut store, 1, 10, now);
        assert!(contains(&mut store, 1, now + second - Duration::from_nanos(1)));
        assert!(matches!(store.find(&key(1), now + second), Found::Stale(bytes) if bytes == cost(&response(10))));
        assert!(matches!(store.find(&key(1), now), Found::Nothing));
        assert_eq!((store.bytes(), store.len()), (0, 0));
    }

    #[test]
    fn cached_response_does_not_hold_the_batch_memory() {
        let batch = Bytes::from(vec![1_u8; 1 << 20]);
        let tensor = Tensor::new(Datatype::Uint8, smallvec![4], Buffer::Shared(batch.slice(8..12))).unwrap();
        let response = InferResponse { outputs: smallvec![tensor], ..response(0) };
        let cached = owned(&response);
        drop(response);
        assert!(batch.is_unique(), "the batch's memory is still held");
        assert_eq!(cached.outputs[0].as_slice(), [1; 4]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(u64, usize),
        Find(u64),
        Wait(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..12_u64, 0..900_usize).prop_map(|(number, length)| Step::Put(number, length)),
            (0..12_u64).prop_map(Step::Find),
            (0..40_u64).prop_map(Step::Wait),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// Compares with a list as model: the same entries in the same order, and the sum of their bytes.
        #[test]
        fn store_matches_a_list_model_of_lru_and_ttl(steps in steps(), max_bytes in 1..4000_usize, ttl in proptest::option::of(1..100_u64)) {
            let mut store = Store::new(max_bytes, ttl.map(Duration::from_millis));
            // Least recently used first: number, bytes, and time of the insertion.
            let mut list: Vec<(u64, usize, u64)> = Vec::new();
            let (start, mut now) = (Instant::now(), 0_u64);
            for step in steps {
                let instant = start + Duration::from_millis(now);
                match step {
                    Step::Wait(millis) => now += millis,
                    Step::Put(number, length) => {
                        let bytes = cost(&response(length));
                        if !store.fits(bytes) {
                            prop_assert!(bytes > max_bytes);
                            continue;
                        }
                        let evicted = put(&mut store, number, length, instant);
                        list.retain(|(known, ..)| *known != number);
                        list.push((number, bytes, now));
                        let mut expected = Evicted::default();
                        while list.iter().map(|(_, bytes, _)| bytes).sum::<usize>() > max_bytes {
                            expected.bytes += list.remove(0).1;
                            expected.entries += 1;
                        }
                        prop_assert_eq!(evicted, expected);
                    }
                    Step::Find(number) => {
                        let position = list.iter().position(|(known, ..)| *known == number);
                        let entry = position.map(|position| list.remove(position));
                        match (store.find(&key(number), instant), entry) {
                            (Found::Nothing, None) => {}
                            (Found::Fresh(response), Some(entry)) => {
                                prop_assert!(ttl.is_none_or(|ttl| now - entry.2 < ttl));
                                prop_assert_eq!(cost(&response), entry.1);
                                list.push(entry);
                            }
                            (Found::Stale(freed), Some(entry)) => {
                                prop_assert!(ttl.is_some_and(|ttl| now - entry.2 >= ttl));
                                prop_assert_eq!(freed, entry.1);
                            }
                            (found, entry) => prop_assert!(false, "{found:?} where {entry:?} is"),
                        }
                    }
                }
                prop_assert_eq!(store.len(), list.len());
                prop_assert_eq!(store.bytes(), list.iter().map(|(_, bytes, _)| bytes).sum::<usize>());
                prop_assert!(store.bytes() <= max_bytes);
            }
        }
    }
}
