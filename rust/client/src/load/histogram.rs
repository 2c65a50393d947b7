//! Histogram of latencies with a bounded relative error.

/// Bits of precision: a bucket is at most 1/512 of its values wide.
const BITS: u32 = 9;
const HALF: u64 = 1 << BITS;
/// Longest value that is distinguished, in nanoseconds: 73 minutes.
const LONGEST: u64 = (1 << 42) - 1;

/// Counts of durations in nanoseconds. Buckets widen with their values, as in HdrHistogram.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// A bucket with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Lowest value, in nanoseconds.
    pub low: u64,
    /// Highest value, in nanoseconds.
    pub high: u64,
    /// Number of values.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; index(LONGEST) + 1], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Adds a value in nanoseconds. Values above 73 minutes are counted there; `max` and `sum` stay exact.
    pub fn record(&mut self, nanos: u64) {
        self.counts[index(nanos.min(LONGEST))] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (own, count) in self.counts.iter_mut().zip(&other.counts) {
            *own += count;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values, in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Lowest and highest value, in nanoseconds; `None` without values.
    pub fn range(&self) -> Option<(u64, u64)> {
        (self.count > 0).then_some((self.min, self.max))
    }

    /// The buckets with values, lowest first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(index, count)| Bucket { low: lowest(index), high: lowest(index + 1) - 1, count: *count })
    }
}

/// Bucket of a value: one each up to twice `HALF`, then `HALF` buckets for each doubling.
fn index(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    (u64::from(shift) * HALF + (value >> shift)) as usize
}

/// Lowest value of a bucket.
fn lowest(index: usize) -> u64 {
    let index = index as u64;
    let shift = (index / HALF).saturating_sub(1);
    (index - shift * HALF) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_adjoin_and_hold_their_values() {
        let last = index(LONGEST);
        for bucket in 0..=last {
            let (low, high) = (lowest(bucket), lowest(bucket + 1) - 1);
            assert_eq!((index(low), index(high)), (bucket, bucket));
            assert!((high - low) * HALF <= low.max(1), "{low}..={high}");
        }
        assert_eq!(lowest(last + 1), LONGEST + 1);
    }

    #[test]
    fn counts_sums_and_extremes_are_exact() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        assert_eq!(one.range(), None);
        for value in [1_000_003, 7, 1_000_003] {
            one.record(value);
        }
        other.record(u64::MAX);
        one.merge(&other);
        assert_eq!((one.count(), one.range()), (4, Some((7, u64::MAX))));
        assert_eq!(one.sum(), 2_000_013 + u128::from(u64::MAX));
        let buckets: Vec<Bucket> = one.buckets().collect();
        assert_eq!(buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!((buckets[0].low, buckets[0].high), (7, 7));
        assert!((buckets[1].low..=buckets[1].high).contains(&1_000_003));
    }
}
