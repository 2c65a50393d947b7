//! Time that an input may take, by its size.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time of any input, however small: some milliseconds of set-up under a sanitizer.
const BASE: Duration = Duration::from_millis(20);

/// Nanoseconds for each byte. Several times what the slowest target takes under AddressSanitizer; work that grows with the
/// square of the input takes more.
const PER_BYTE: u32 = 5_000;

/// Runs a fuzz target on an input of `len` bytes, and fails if it takes more CPU time than the size allows. It runs
/// again before it fails, since the sanitizer frees memory from time to time.
///
/// # Panics
/// All of three runs take too long.
pub fn within_budget(len: usize, work: impl Fn()) {
    let bytes = u32::try_from(len).unwrap_or(u32::MAX);
    let allowed = BASE + Duration::from_nanos(u64::from(PER_BYTE) * u64::from(bytes));
    let took = || {
        let started = now();
        work();
        now() - started
    };
    let mut least = took();
    for _ in 0..2 {
        if least <= allowed {
            return;
        }
        least = least.min(took());
    }
    assert!(least <= allowed, "the input took {least:?} at least, allowed are {allowed:?}");
}

/// CPU time of this thread: other programs do not count.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
