//! The last requests and the slowest ones, while someone watches.

use penstock_core::{ModelSpec, Timings};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Last requests that are kept, and how many are added between two readings.
const LAST: u32 = 20;

/// Slowest requests that are kept.
const SLOWEST: usize = 10;

/// Time after which a request is no longer among the slowest.
const SLOWEST_FOR: Duration = Duration::from_secs(300);

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct RequestRecord {
    /// Number of the record; later ones have larger numbers.
    pub(crate) serial: u64,
    pub(crate) time: SystemTime,
    /// `None` for a request of no known model.
    pub(crate) model: Option<Arc<ModelSpec>>,
    pub(crate) protocol: &'static str,
    pub(crate) id: String,
    /// HTTP status or gRPC code.
    pub(crate) status: i32,
    /// `ok`, or the name of the error's kind.
    pub(crate) outcome: &'static str,
    pub(crate) duration: Duration,
    pub(crate) timings: Timings,
}

/// The last requests, and the slowest of some minutes.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    /// Requests that are still added until the next reading. Under load most requests only read it.
    room: AtomicU32,
    /// Nanoseconds above which a request is one of the slowest.
    slow_ns: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    serial: u64,
    last: VecDeque<RequestRecord>,
    /// Slowest first.
    slowest: Vec<RequestRecord>,
}

impl RequestLog {
    /// Adds a request, if there is room for it or it is slow.
    pub(crate) fn add(&self, duration: Duration, record: impl FnOnce() -> RequestRecord) {
        let less = |room: u32| room.checked_sub(1);
        let is_listed = self.room.load(Ordering::Relaxed) > 0
            && self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        let is_slow = nanoseconds(duration) > self.slow_ns.load(Ordering::Relaxed);
        if !is_listed && !is_slow {
            return;
        }
        let mut record = record();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.serial += 1;
        record.serial = kept.serial;
        if is_slow {
            let place = kept.slowest.partition_point(|other| other.duration >= record.duration);
            kept.slowest.insert(place, record.clone());
            kept.slowest.truncate(SLOWEST);
            self.set_threshold(&kept);
        }
        if is_listed {
            kept.last.push_back(record);
            if kept.last.len() > LAST as usize {
                kept.last.pop_front();
            }
        }
    }

    /// Returns the last requests, newest last, and the slowest ones, slowest first. Makes room for further ones.
    pub(crate) fn read(&self) -> (Vec<RequestRecord>, Vec<RequestRecord>) {
        let oldest = SystemTime::now().checked_sub(SLOWEST_FOR);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.slowest.retain(|record| oldest.is_none_or(|oldest| record.time >= oldest));
        self.set_threshold(&kept);
        self.room.store(LAST, Ordering::Relaxed);
        (kept.last.iter().cloned().collect(), kept.slowest.clone())
    }

    /// Forgets all requests.
    pub(super) fn clear(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last.clear();
        kept.slowest.clear();
        self.set_threshold(&kept);
    }

    fn set_threshold(&self, kept: &Kept) {
        let least = if kept.slowest.len() < SLOWEST { None } else { kept.slowest.last() };
        self.slow_ns.store(least.map_or(0, |record| nanoseconds(record.duration)), Ordering::Relaxed);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &RequestLog, millis: u64, time: SystemTime) {
        let duration = Duration::from_millis(millis);
        log.add(duration, || RequestRecord {
            serial: 0,
            time,
            model: None,
            protocol: "http",
            id: String::new(),
            status: 200,
            outcome: "ok",
            duration,
            timings: Timings::default(),
        });
    }

    fn millis(records: &[RequestRecord]) -> Vec<u128> {
        records.iter().map(|record| record.duration.as_millis()).collect()
    }

    #[test]
    fn slowest_requests_are_kept_in_order() {
        let (log, now) = (RequestLog::default(), SystemTime::now());
        (1..=50).for_each(|millis| add(&log, (millis * 37) % 50 + 1, now));
        let (last, slowest) = log.read();
        assert_eq!(last.len(), 0, "no room before the first reading");
        assert_eq!(millis(&slowest), (41..=50).rev().collect::<Vec<_>>());
        add(&log, 40, now);
        assert_eq!(millis(&log.read().0), [40], "listed, and not among the slowest");
    }

    #[test]
    fn last_requests_are_bounded_between_readings() {
        let (log, now) = (RequestLog::default(), SystemTime::now());
        log.read();
        (0..100).for_each(|_| add(&log, 1, now));
        assert_eq!(log.read().0.len(), LAST as usize);
        add(&log, 2, now);
        let (last, _) = log.read();
        assert_eq!((last.len(), millis(&last).last()), (LAST as usize, Some(&2)));
    }

    #[test]
    fn slow_requests_of_long_ago_are_forgotten() {
        let (log, now) = (RequestLog::default(), SystemTime::now());
        (0..20).for_each(|_| add(&log, 1000, now - 2 * SLOWEST_FOR));
        add(&log, 1001, now);
        assert_eq!(millis(&log.read().1), [1001]);
        add(&log, 5, now);
        assert_eq!(millis(&log.read().1), [1001, 5]);
        log.clear();
        assert_eq!(log.read().1.len(), 0);
    }
}
