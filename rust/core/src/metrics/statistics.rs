//! Statistics of one model version since its load, as the protocol defines them.
//!
//! One short lock per batch, and none per request. A snapshot is consistent.

use crate::InterpreterTimes;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Positions in a stream to count separately; later responses count for the last one.
const RESPONSE_PLACES: usize = 256;

/// Count and total duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Count.
    pub count: u64,
    /// Total nanoseconds.
    pub ns: u64,
}

/// Durations of a batch's phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComputeTotals {
    /// From the cut of a batch to its handler: joining rows, creating arrays, waiting for the GIL.
    pub input: Total,
    /// Handler.
    pub infer: Total,
    /// Reading the handler's arrays.
    pub output: Total,
}

/// Responses at one position of their streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseTotals {
    /// Handler's time for the response.
    pub infer: Total,
    /// Reading its arrays.
    pub output: Total,
    /// Responses with outputs.
    pub success: Total,
    /// Errors.
    pub fail: Total,
    /// Ends of streams without a response.
    pub empty: Total,
    /// Responses to abandoned requests.
    pub cancel: Total,
}

/// Outcome of one response of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseOutcome {
    /// Sent with outputs.
    Success,
    /// Error.
    Fail,
    /// End of the stream without a response.
    Empty,
    /// The request was abandoned.
    Cancel,
}

/// Statistics at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// End of the last batch, in milliseconds since 1970; 0 before the first.
    pub last_inference_ms: u64,
    /// Rows computed.
    pub inferences: u64,
    /// Calls of the handler.
    pub executions: u64,
    /// Successful requests: from arrival in the queue to the response.
    pub success: Total,
    /// Requests that failed after their model was known.
    pub fail: Total,
    /// Successful requests: time in the queue.
    pub queue: Total,
    /// Successful requests: time of the whole batch, for each of its requests.
    pub compute: ComputeTotals,
    /// Cache hits: time of the lookup.
    pub cache_hit: Total,
    /// Cache misses: time of lookup and insertion.
    pub cache_miss: Total,
    /// Successful batches, by rows.
    pub batches: BTreeMap<usize, ComputeTotals>,
    /// Responses of models that stream, by position in the stream from 0.
    pub responses: BTreeMap<usize, ResponseTotals>,
}

/// A batch that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) rows: usize,
    /// Rows of failed requests in a batch that was computed.
    pub(crate) failed_rows: usize,
    /// Requests that were not abandoned.
    pub(crate) requests: u64,
    /// Total time of those in the queue.
    pub(crate) waited: Duration,
    /// Time since the cut.
    pub(crate) elapsed: Duration,
    /// `None` if the batch failed.
    pub(crate) times: Option<InterpreterTimes>,
}

/// Statistics of one model version.
#[derive(Debug, Default)]
pub struct Statistics(Mutex<Snapshot>);

impl Statistics {
    /// Returns a snapshot.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().clone()
    }

    /// Reads the current counts without a copy.
    pub(super) fn with<T>(&self, read: impl FnOnce(&Snapshot) -> T) -> T {
        read(&self.lock())
    }

    /// Counts a failed request.
    pub fn failed(&self, duration: Duration) {
        self.lock().fail.add(1, ns(duration));
    }

    /// Counts a request answered from the cache: no queue time, no computation.
    pub fn cache_hit(&self, duration: Duration) {
        let mut now = self.lock();
        now.cache_hit.add(1, ns(duration));
        now.success.add(1, ns(duration));
        now.queue.add(1, 0);
    }

    /// Counts a cache miss.
    pub fn cache_miss(&self, search: Duration) {
        self.lock().cache_miss.add(1, ns(search));
    }

    /// Adds the time to store a response after a miss.
    pub fn cache_stored(&self, duration: Duration) {
        self.lock().cache_miss.add(0, ns(duration));
    }

    /// Counts one response of a stream, at position `place` from 0.
    pub fn responded(&self, place: usize, infer: Duration, output: Duration, outcome: ResponseOutcome) {
        let mut now = self.lock();
        let totals = now.responses.entry(place.min(RESPONSE_PLACES - 1)).or_default();
        let all = ns(infer).saturating_add(ns(output));
        match outcome {
            ResponseOutcome::Success | ResponseOutcome::Fail => {
                totals.infer.add(1, ns(infer));
                totals.output.add(1, ns(output));
                let total = if outcome == ResponseOutcome::Success { &mut totals.success } else { &mut totals.fail };
                total.add(1, all);
            }
            ResponseOutcome::Empty => totals.empty.add(1, all),
            ResponseOutcome::Cancel => totals.cancel.add(1, all),
        }
    }

    /// Counts one batch.
    pub(crate) fn ended(&self, batch: &Ended) {
        let mut now = self.lock();
        now.last_inference_ms = unix_ms();
        now.executions += 1;
        let Some(times) = batch.times else { return };
        let (infer, output) = (ns(times.handler), ns(times.output));
        let input = ns(batch.elapsed).saturating_sub(infer + output);
        now.inferences += batch.rows.saturating_sub(batch.failed_rows) as u64;
        now.success.add(batch.requests, ns(batch.waited).saturating_add(ns(batch.elapsed) * batch.requests));
        now.queue.add(batch.requests, ns(batch.waited));
        now.compute.add(batch.requests, [input, infer, output]);
        now.batches.entry(batch.rows).or_default().add(1, [input, infer, output]);
    }

    /// Counts one step of an iterative model. `None` if it failed.
    pub(crate) fn stepped(&self, rows: usize, times: Option<InterpreterTimes>) {
        let mut now = self.lock();
        now.last_inference_ms = unix_ms();
        now.executions += 1;
        let Some(times) = times else { return };
        let input = times.boundary.saturating_sub(times.output);
        now.batches.entry(rows).or_default().add(1, [ns(input), ns(times.handler), ns(times.output)]);
    }

    /// Counts a request that has left an iterative model. `batch.times` are those of its steps.
    pub(crate) fn left(&self, batch: &Ended) {
        let Some(times) = batch.times else { return };
        let (infer, output) = (ns(times.handler), ns(times.output));
        let input = ns(batch.elapsed).saturating_sub(infer + output);
        let mut now = self.lock();
        now.inferences += batch.rows as u64;
        now.success.add(batch.requests, ns(batch.waited).saturating_add(ns(batch.elapsed)) * batch.requests);
        now.queue.add(batch.requests, ns(batch.waited));
        now.compute.add(batch.requests, [input, infer, output]);
    }

    /// Merges the counts of `parts` requests into one: they were parts of a split request.
    pub(crate) fn merge_parts(&self, parts: usize) {
        let more = (parts as u64).saturating_sub(1);
        let mut now = self.lock();
        let Snapshot { success, queue, compute: ComputeTotals { input, infer, output }, .. } = &mut *now;
        for total in [success, queue, input, infer, output] {
            total.count = total.count.saturating_sub(more);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Total {
    fn add(&mut self, count: u64, ns: u64) {
        self.count += count;
        self.ns = self.ns.saturating_add(ns);
    }
}

impl ComputeTotals {
    /// Adds `count` times the durations of one batch: input, infer, output.
    fn add(&mut self, count: u64, durations: [u64; 3]) {
        for (total, ns) in [&mut self.input, &mut self.infer, &mut self.output].into_iter().zip(durations) {
            total.add(count, ns.saturating_mul(count));
        }
    }
}

/// Milliseconds since the epoch.
fn unix_ms() -> u64 {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    u64::try_from(millis).unwrap_or(u64::MAX)
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ended(rows: usize, requests: u64) -> Ended {
        let ms = Duration::from_millis;
        let times = InterpreterTimes { handler: ms(3), output: ms(1), ..InterpreterTimes::default() };
        let waited = ms(2) * u32::try_from(requests).unwrap();
        Ended { rows, failed_rows: 0, requests, waited, elapsed: ms(10), times: Some(times) }
    }

    #[test]
    fn batch_times_count_for_each_request() {
        let statistics = Statistics::default();
        statistics.ended(&ended(8, 2));
        let now = statistics.snapshot();
        assert_eq!((now.inferences, now.executions), (8, 1));
        assert_eq!(now.success, Total { count: 2, ns: 24 * MS });
        assert_eq!(now.queue, Total { count: 2, ns: 4 * MS });
        let parts = [now.compute.input, now.compute.infer, now.compute.output];
        assert_eq!(parts, [12, 6, 2].map(|ms| Total { count: 2, ns: ms * MS }));
        let parts = [now.batches[&8].input, now.batches[&8].infer, now.batches[&8].output];
        assert_eq!(parts, [6, 3, 1].map(|ms| Total { count: 1, ns: ms * MS }));
        assert!(now.last_inference_ms > 0);
    }

    #[test]
    fn cache_hits_do_not_count_as_executions() {
        let (statistics, ms) = (Statistics::default(), Duration::from_millis(1));
        statistics.cache_miss(ms);
        statistics.ended(&ended(8, 1));
        statistics.cache_stored(ms);
        statistics.cache_hit(ms);
        let now = statistics.snapshot();
        assert_eq!((now.cache_hit, now.cache_miss), (Total { count: 1, ns: MS }, Total { count: 1, ns: 2 * MS }));
        assert_eq!((now.success.count, now.queue.count, now.compute.infer.count), (2, 2, 1));
        assert_eq!((now.inferences, now.executions), (8, 1));
    }

    #[test]
    fn failed_batch_counts_as_executed_but_not_successful() {
        let statistics = Statistics::default();
        statistics.ended(&Ended { times: None, ..ended(8, 2) });
        statistics.failed(Duration::from_millis(1));
        let now = statistics.snapshot();
        assert_eq!((now.inferences, now.executions, now.success.count), (0, 1, 0));
        assert_eq!(now.fail, Total { count: 1, ns: MS });
        assert!(now.batches.is_empty());
    }

    #[test]
    fn parts_of_a_split_request_count_once() {
        let statistics = Statistics::default();
        (0..3).for_each(|_| statistics.ended(&ended(8, 1)));
        statistics.merge_parts(3);
        let now = statistics.snapshot();
        assert_eq!((now.success.count, now.queue.count, now.compute.infer.count), (1, 1, 1));
        assert_eq!((now.inferences, now.executions, now.compute.infer.ns), (24, 3, 9 * MS));
    }

    #[test]
    fn stream_responses_count_by_index_and_indices_are_bounded() {
        let (statistics, ms) = (Statistics::default(), Duration::from_millis(1));
        statistics.responded(0, ms, ms, ResponseOutcome::Success);
        statistics.responded(1, ms, Duration::ZERO, ResponseOutcome::Fail);
        statistics.responded(2, ms, Duration::ZERO, ResponseOutcome::Empty);
        (0..2000).for_each(|place| statistics.responded(place, ms, ms, ResponseOutcome::Cancel));
        let now = statistics.snapshot();
        assert_eq!(now.responses[&0].success, Total { count: 1, ns: 2 * MS });
        assert_eq!(now.responses[&1].fail, Total { count: 1, ns: MS });
        assert_eq!((now.responses[&2].empty.count, now.responses[&2].infer.count), (1, 0));
        assert_eq!(now.responses.len(), RESPONSE_PLACES);
        assert_eq!(now.responses[&(RESPONSE_PLACES - 1)].cancel.count, 2000 - RESPONSE_PLACES as u64 + 1);
    }
}
