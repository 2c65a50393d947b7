//! Timer with the resolution of the kernel: the runtime's has 1 ms.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::{io, os::fd::OwnedFd, time::Duration};
use tokio::io::unix::AsyncFd;

/// Shortest sleep: requests that are due within it are sent together.
const SHORTEST: Duration = Duration::from_micros(20);

/// A timer of the current runtime.
#[derive(Debug)]
pub(super) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// Creates the timer.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "its successor has a contract that an owned descriptor always meets")]
        let watched = AsyncFd::new(timer)?;
        Ok(Self(watched))
    }

    /// Sleeps.
    ///
    /// # Errors
    /// As of the system calls.
    pub(super) async fn sleep(&self, duration: Duration) -> io::Result<()> {
        let duration = duration.max(SHORTEST);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: duration.as_secs().cast_signed(), tv_nsec: duration.subsec_nanos().into() };
        let once = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        // Setting the timer again resets its count, so that it need not be read.
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}
