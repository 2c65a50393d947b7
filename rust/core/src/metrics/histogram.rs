//! Histogram without a lock: requests of all threads observe the same one.

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric, histogram::exponential_buckets},
};
use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

/// OpenTelemetry's buckets of HTTP, in seconds, and some at both ends.
const REQUESTS: [f64; 19] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0,
];

/// Number of buckets up to which they are searched in order.
const MAX_LINEAR: usize = 32;

/// Histogram with fixed buckets. Clones share their counts.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Upper bounds of the buckets, ascending; the last one is infinite.
    bounds: Box<[f64]>,
    counts: Box<[AtomicU64]>,
    /// Bits of the sum, a double.
    sum: AtomicU64,
    /// Exemplar of each bucket, from the first traced value on.
    exemplars: OnceLock<Box<[Mutex<Option<Exemplar>>]>>,
}

/// A value of a traced request, as an example of a bucket.
#[derive(Clone, Copy, Debug)]
pub(in crate::metrics) struct Exemplar {
    pub(in crate::metrics) trace_id: [u8; 16],
    pub(in crate::metrics) value: f64,
    pub(in crate::metrics) time: SystemTime,
}

impl Histogram {
    /// Creates a histogram with these finite upper bounds, in ascending order.
    pub(crate) fn new(bounds: impl IntoIterator<Item = f64>) -> Self {
        let bounds: Box<[f64]> = bounds.into_iter().chain([f64::INFINITY]).collect();
        let counts = bounds.iter().map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Inner { bounds, counts, sum: AtomicU64::new(0), exemplars: OnceLock::new() }))
    }

    /// Creates a histogram of 0.5 ms to 60 s for whole requests: OpenTelemetry's buckets of HTTP, and some at both ends.
    pub(crate) fn of_requests() -> Self {
        Self::new(REQUESTS)
    }

    /// Creates a histogram as [`Histogram::of_requests`] with a bucket more, 2 s, which Triton's of first responses has.
    pub(crate) fn of_first_responses() -> Self {
        let (short, long) = REQUESTS.split_at(REQUESTS.partition_point(|bound| *bound < 2.0));
        Self::new(short.iter().chain(&[2.0]).chain(long).copied())
    }

    /// Creates a histogram of 1, 2 and 5 times each power of ten, from `10^from` to `10^to`.
    pub(crate) fn of_decades(from: i32, to: i32) -> Self {
        let decade = |exponent: i32| [1.0, 2.0, 5.0].map(|digit| decimal(digit, exponent));
        Self::new((from..to).flat_map(decade).chain([decimal(1.0, to)]))
    }

    /// Creates a histogram of 10 us to about 120 s, in steps of a sixth: fine enough for percentiles.
    pub(crate) fn of_latencies() -> Self {
        Self::new(exponential_buckets(10e-6, 1.1665, 107))
    }

    /// Adds one value.
    pub fn observe(&self, value: f64) {
        self.add(value);
    }

    /// Adds one value of a request, which becomes the exemplar of its bucket if the request is traced.
    pub fn observe_traced(&self, value: f64, trace_id: Option<&[u8; 16]>) {
        let bucket = self.add(value);
        if let Some(trace_id) = trace_id {
            self.set_exemplar(bucket, Exemplar { trace_id: *trace_id, value, time: SystemTime::now() });
        }
    }

    #[cold]
    fn set_exemplar(&self, bucket: usize, exemplar: Exemplar) {
        let Inner { counts, exemplars, .. } = &*self.0;
        let slots = exemplars.get_or_init(|| counts.iter().map(|_| Mutex::default()).collect());
        *slots[bucket].lock().unwrap_or_else(PoisonError::into_inner) = Some(exemplar);
    }

    /// Exemplars by bucket; empty if no request was traced.
    pub(in crate::metrics) fn exemplars(&self) -> Vec<Option<Exemplar>> {
        let slots = self.0.exemplars.get().map(|slots| &**slots).unwrap_or_default();
        slots.iter().map(|slot| *slot.lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// Adds one value; returns its bucket.
    fn add(&self, value: f64) -> usize {
        let Inner { bounds, counts, sum, .. } = &*self.0;
        // Most values are small: of few buckets the first ones are tried in turn.
        let bucket = match bounds.len() <= MAX_LINEAR {
            true => bounds.iter().position(|bound| value <= *bound).unwrap_or(counts.len() - 1),
            false => bounds.partition_point(|bound| *bound < value).min(counts.len() - 1),
        };
        counts[bucket].fetch_add(1, Ordering::Relaxed);
        let added = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
        bucket
    }
}

/// `digit * 10^exponent`, without the error of a multiplication with a negative power.
fn decimal(digit: f64, exponent: i32) -> f64 {
    if exponent < 0 { digit / 10_f64.powi(-exponent) } else { digit * 10_f64.powi(exponent) }
}

/// Counts of a histogram at one moment, or their difference between two moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Values in each bucket, in the order of [`Histogram::bounds`].
    pub counts: Vec<u64>,
    /// Sum of the values.
    pub sum: f64,
}

impl Histogram {
    /// Upper bounds of the buckets, ascending; the last one is infinite.
    pub fn bounds(&self) -> &[f64] {
        &self.0.bounds
    }

    /// Reads the counts. A value that is observed meanwhile may be in a count and not in the sum.
    pub fn distribution(&self) -> Distribution {
        let Inner { counts, sum, .. } = &*self.0;
        let counts = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Distribution { counts, sum: f64::from_bits(sum.load(Ordering::Relaxed)) }
    }
}

impl Distribution {
    /// Values observed since an earlier reading of the same histogram.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(before).map(|(count, before)| count.saturating_sub(before)).collect();
        Self { counts, sum: (self.sum - earlier.sum).max(0.0) }
    }

    /// Number of values up to a bound, which is one of `bounds`.
    pub fn up_to(&self, bounds: &[f64], bound: f64) -> u64 {
        self.counts.iter().zip(bounds).filter(|(_, own)| **own <= bound).map(|(count, _)| count).sum()
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Mean of the values; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum / count as f64)
    }

    /// Value below which a share of the values lies, by linear interpolation within its bucket; `None` without values.
    /// Values above the last finite bound count as that bound.
    pub fn quantile(&self, bounds: &[f64], share: f64) -> Option<f64> {
        let rank = share * self.count() as f64;
        let (mut below, mut lower) = (0.0, 0.0);
        for (&count, &bound) in self.counts.iter().zip(bounds) {
            let upper = if bound.is_finite() { bound } else { lower };
            if count > 0 && below + count as f64 >= rank {
                return Some(lower + (upper - lower) * ((rank - below) / count as f64).clamp(0.0, 1.0));
            }
            (below, lower) = (below + count as f64, upper);
        }
        None
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    /// Writes the counts. They are read one after the other, so a value that is observed meanwhile may be in a count and
    /// not in the sum.
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let Inner { bounds, counts, sum, .. } = &*self.0;
        let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.iter().copied().zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(f64::from_bits(sum.load(Ordering::Relaxed)), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::{encoding::text::encode, metrics::histogram::Histogram as Reference, registry::Registry};

    fn text(metric: impl prometheus_client::registry::Metric) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register("h", "help", metric);
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn exposition_equals_that_of_the_client_library() {
        let (own, reference) =
            (Histogram::new(exponential_buckets(1.0, 2.0, 3)), Reference::new(exponential_buckets(1.0, 2.0, 3)));
        for value in [0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 4.5, 1e300, f64::MAX, f64::INFINITY] {
            own.observe(value);
            reference.observe(value);
        }
        assert_eq!(text(own), text(reference));
    }

    #[test]
    fn quantiles_are_those_of_the_values_since_an_earlier_reading() {
        let histogram = Histogram::new([1.0, 2.0, 4.0]);
        (0..100).for_each(|_| histogram.observe(0.5));
        let before = histogram.distribution();
        (0..90).for_each(|_| histogram.observe(1.5));
        (0..10).for_each(|_| histogram.observe(3.0));
        let new = histogram.distribution().since(&before);
        assert_eq!((new.count(), new.mean()), (100, Some(1.65)));
        assert_eq!(new.quantile(histogram.bounds(), 0.45), Some(1.5));
        assert_eq!(new.quantile(histogram.bounds(), 0.95), Some(3.0));
        histogram.observe(1e9);
        let all = histogram.distribution();
        assert_eq!(all.quantile(histogram.bounds(), 1.0), Some(4.0));
        let none = all.since(&all);
        assert_eq!((none.quantile(histogram.bounds(), 0.5), none.mean()), (None, None));
    }

    #[test]
    fn no_value_of_several_threads_is_lost() {
        let histogram = Histogram::new([1.0]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| histogram.observe(2.0)));
            }
        });
        let text = text(histogram);
        assert!(text.contains("h_sum 8000.0\n") && text.contains("h_count 4000\n"), "{text}");
    }
}
