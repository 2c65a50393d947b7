//! Histogram without a lock: requests of all threads observe the same one.

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

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
}

impl Histogram {
    /// Creates a histogram with these finite upper bounds, in ascending order.
    pub(crate) fn new(bounds: impl IntoIterator<Item = f64>) -> Self {
        let bounds: Box<[f64]> = bounds.into_iter().chain([f64::INFINITY]).collect();
        let counts = bounds.iter().map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Inner { bounds, counts, sum: AtomicU64::new(0) }))
    }

    /// Adds one value.
    pub fn observe(&self, value: f64) {
        let Inner { bounds, counts, sum } = &*self.0;
        let bucket = bounds.partition_point(|bound| *bound < value).min(counts.len() - 1);
        counts[bucket].fetch_add(1, Ordering::Relaxed);
        let added = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    /// Writes the counts. They are read one after the other, so a value that is observed meanwhile may be in a count and
    /// not in the sum.
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let Inner { bounds, counts, sum } = &*self.0;
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
    use prometheus_client::{
        encoding::text::encode,
        metrics::histogram::{Histogram as Reference, exponential_buckets},
        registry::Registry,
    };

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
