//! Timeout of a lane's requests.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::{Duration, Instant},
};
use tokio::time::{Sleep, sleep};

/// A timer that is set again only when it has fired: a request in time costs no timer operation.
#[derive(Debug)]
pub(super) struct Patience {
    timeout: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, sleep: None }
    }

    /// Awaits `future`, at most the timeout from `start`; `None` when it has passed.
    pub(super) async fn within<T>(&mut self, start: Instant, future: impl Future<Output = T>) -> Option<T> {
        let deadline = start + self.timeout;
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            // Within a runtime only.
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(self.timeout)));
            while sleep.as_mut().poll(cx).is_ready() {
                if Instant::now() >= deadline {
                    return Poll::Ready(None);
                }
                sleep.as_mut().reset(deadline.into());
            }
            Poll::Pending
        })
        .await
    }
}
