//! Slow requests: the last ones, and at most ten lines a second.

use super::record::SlowRecord;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Requests that are kept.
const MAX_KEPT: usize = 100;

/// Lines in a second.
const MAX_LINES: u32 = 10;

/// Requests that took longer than the setting `slow_request`.
#[derive(Debug)]
pub(crate) struct SlowRequests {
    pub(crate) threshold: Duration,
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    /// Last ones, oldest first.
    kept: VecDeque<Arc<SlowRecord>>,
    count: u64,
    /// Start of the second in which `lines` were written.
    since: Option<Instant>,
    lines: u32,
    /// Requests without a line since the last one.
    skipped: u64,
}

impl SlowRequests {
    pub(in crate::observe) fn new(threshold: Duration) -> Self {
        Self { threshold, recent: Mutex::default() }
    }

    /// Adds a request. Returns how many had no line since the last one, if it gets a line.
    pub(in crate::observe) fn add(&self, record: &Arc<SlowRecord>, now: Instant) -> Option<u64> {
        let mut recent = self.lock();
        recent.count += 1;
        if recent.kept.len() == MAX_KEPT {
            recent.kept.pop_front();
        }
        recent.kept.push_back(Arc::clone(record));
        if recent.since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1)) {
            (recent.since, recent.lines) = (Some(now), 0);
        }
        if recent.lines == MAX_LINES {
            recent.skipped += 1;
            return None;
        }
        recent.lines += 1;
        Some(std::mem::take(&mut recent.skipped))
    }

    /// Returns the number of slow requests, and the last ones, newest first.
    pub(crate) fn last(&self) -> (u64, Vec<Arc<SlowRecord>>) {
        let recent = self.lock();
        (recent.count, recent.kept.iter().rev().map(Arc::clone).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_the_last_requests_kept() {
        let (slow, start) = (SlowRequests::new(Duration::from_millis(1)), Instant::now());
        let add = |id: usize, after: u64| {
            slow.add(&Arc::new(SlowRecord::sample(&id.to_string())), start + Duration::from_millis(after))
        };
        let lines = (0..150).filter(|id| add(*id, 0) == Some(0)).count();
        assert_eq!(lines, 10);
        assert_eq!(add(150, 999), None);
        assert_eq!((add(151, 1000), add(152, 1001)), (Some(141), Some(0)));
        let (count, kept) = slow.last();
        assert_eq!((count, kept.len()), (153, 100));
        let id = |place: usize| kept[place].entry.id.clone();
        assert_eq!((id(0), id(99)), ("152".to_owned(), "53".to_owned()));
    }
}
