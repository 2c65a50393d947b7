//! Sampling of successful requests for the access log.

use std::sync::atomic::{AtomicU64, Ordering};

/// A share of events, chosen by a mixed counter: regular traffic is sampled as any other.
#[derive(Debug)]
pub(super) struct Sample {
    /// Bound on the mixed number; `None` takes all.
    bound: Option<u64>,
    next: AtomicU64,
}

impl Sample {
    /// Takes a share from 0 to 1.
    pub(super) fn new(share: f64) -> Self {
        let bound = (share < 1.0).then(|| (share.max(0.0) * 2_f64.powi(64)) as u64);
        Self { bound, next: AtomicU64::new(0) }
    }

    /// Reports whether the next event is taken.
    pub(super) fn takes_next(&self) -> bool {
        let Some(bound) = self.bound else { return true };
        // SplitMix64.
        let mut mixed = self.next.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) < bound
    }
}

#[cfg(test)]
mod tests {
    use super::Sample;

    #[test]
    fn share_of_events_is_taken() {
        for (share, least, most) in [(0.0, 0, 0), (0.1, 900, 1100), (0.5, 4800, 5200), (1.0, 10_000, 10_000)] {
            let sample = Sample::new(share);
            let taken = (0..10_000).filter(|_| sample.takes_next()).count();
            assert!((least..=most).contains(&taken), "{share}: {taken}");
        }
    }
}
