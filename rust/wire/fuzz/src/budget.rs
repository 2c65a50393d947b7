//! Time that an input may take, by its size.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time of any input, however small: some milliseconds of set-up under a sanitizer.
const BASE: Duration = Duration::from_millis(20);

/// Nanoseconds for each byte. Ten times what the slowest target takes under AddressSanitizer, so that an unsteady machine
/// is no failure, and work that grows with the square of the input is.
const PER_BYTE: u32 = 5_000;

/// Fails a fuzz target whose input took more of the processor's time than its size allows. Begins when it is made, and
/// ends when it is dropped.
#[derive(Debug)]
pub struct Budget {
    started: Duration,
    allowed: Duration,
}

impl Budget {
    /// The budget of an input of `len` bytes.
    pub fn of(len: usize) -> Self {
        let bytes = u32::try_from(len).unwrap_or(u32::MAX);
        Self { started: now(), allowed: BASE + Duration::from_nanos(u64::from(PER_BYTE) * u64::from(bytes)) }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        let took = now() - self.started;
        // A panic that is under way says more.
        if !std::thread::panicking() {
            assert!(took <= self.allowed, "the input took {took:?}, allowed are {:?}", self.allowed);
        }
    }
}

/// This thread's time on a processor: other programs' work does not count.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
