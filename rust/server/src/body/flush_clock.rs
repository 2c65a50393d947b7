//! Flush clock of one stream: responses within an interval leave together.

use std::{pin::Pin, task::Context, time::Duration};
use tokio::time::{Instant, Sleep, sleep};

/// Time between two frames of one stream. The first frame, a full one and the last one do not wait for it.
#[derive(Debug)]
pub(crate) struct FlushClock {
    /// `None`: responses leave as they come.
    interval: Option<Duration>,
    /// Created with the first frame.
    timer: Option<Pin<Box<Sleep>>>,
    running: bool,
}

impl FlushClock {
    /// Creates a clock that does not run.
    pub(crate) fn new(interval: Option<Duration>) -> Self {
        Self { interval, timer: None, running: false }
    }

    /// Starts the interval that follows a frame.
    pub(crate) fn start(&mut self) {
        let Some(interval) = self.interval else { return };
        self.running = true;
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(Instant::now() + interval),
            None => self.timer = Some(Box::pin(sleep(interval))),
        }
    }

    /// Reports whether the interval after the last frame has not ended. The task is polled when it ends.
    pub(crate) fn is_running(&mut self, cx: &mut Context<'_>) -> bool {
        if self.running
            && let Some(timer) = &mut self.timer
        {
            self.running = timer.as_mut().poll(cx).is_pending();
        }
        self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, task::Poll};

    async fn is_running(clock: &mut FlushClock) -> bool {
        poll_fn(|cx| Poll::Ready(clock.is_running(cx))).await
    }

    #[tokio::test(start_paused = true)]
    async fn clock_runs_for_an_interval_after_each_frame() {
        let mut clock = FlushClock::new(Some(Duration::from_millis(5)));
        assert!(!is_running(&mut clock).await);
        for _ in 0..2 {
            clock.start();
            assert!(is_running(&mut clock).await);
            tokio::time::sleep(Duration::from_millis(6)).await;
            assert!(!is_running(&mut clock).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn task_is_woken_at_the_end_of_the_interval() {
        let mut clock = FlushClock::new(Some(Duration::from_millis(5)));
        clock.start();
        poll_fn(|cx| if clock.is_running(cx) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    #[tokio::test]
    async fn clock_without_an_interval_never_runs() {
        let mut clock = FlushClock::new(None);
        clock.start();
        assert!(!is_running(&mut clock).await);
    }
}
