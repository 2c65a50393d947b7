//! Limits of one client: the rate of its requests, and how many run at once.

use super::{key::Denied, rate::Rate};
use penstock_core::{Error, Kind, metrics::DeniedReason};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Time after which a client with too many requests at once may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Limits of one client, and their use.
#[derive(Debug)]
pub(crate) struct ClientLimits {
    rate: Option<Rate>,
    concurrency: Option<usize>,
    running: AtomicUsize,
}

/// A running request of a client with limits. Dropping it frees its place.
#[derive(Debug)]
pub(crate) struct ClientSlot(Arc<ClientLimits>);

impl ClientLimits {
    /// Limits; `None` if there are none.
    pub(super) fn new(rate: Option<Rate>, concurrency: Option<usize>) -> Option<Arc<Self>> {
        let is_limited = rate.is_some() || concurrency.is_some();
        is_limited.then(|| Arc::new(Self { rate, concurrency, running: AtomicUsize::new(0) }))
    }

    /// Reports whether others are the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let same_rate = match (&self.rate, &other.rate) {
            (Some(one), Some(other)) => one.is_like(other),
            (None, None) => true,
            _ => false,
        };
        same_rate && self.concurrency == other.concurrency
    }

    /// Copies the limits, without their use.
    pub(super) fn unused(&self) -> Arc<Self> {
        let rate = self.rate.as_ref().map(Rate::unused);
        Arc::new(Self { rate, concurrency: self.concurrency, running: AtomicUsize::new(0) })
    }

    /// Admits a request. `client` is its client's name for the message.
    ///
    /// # Errors
    /// `Throttled` with the time after which a retry may succeed.
    pub(crate) fn enter(self: &Arc<Self>, client: &str) -> Result<ClientSlot, Denied> {
        let slot = ClientSlot(Arc::clone(self));
        let running = self.running.fetch_add(1, Ordering::Relaxed);
        if let Some(most) = self.concurrency.filter(|most| running >= *most) {
            return Err(throttled(format!("{client} may have {most} requests at once"), RETRY_AFTER));
        }
        if let Some(rate) = &self.rate
            && let Err(wait) = rate.take()
        {
            return Err(throttled(format!("{client} may send {} requests", rate.text()), wait));
        }
        Ok(slot)
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

fn throttled(what: String, wait: Duration) -> Denied {
    let seconds = wait.as_secs_f64();
    let text = format!("{what}, retry in {seconds:.3} s");
    Denied::new(DeniedReason::Rate, Error::new(Kind::Throttled, text).retry_after(wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_free_again_when_their_requests_end() {
        let limits = ClientLimits::new(None, Some(2)).unwrap();
        let first = limits.enter("a").unwrap();
        let second = limits.enter("a").unwrap();
        let refused = limits.enter("key 'a'").unwrap_err();
        assert_eq!(refused.error.message(), "key 'a' may have 2 requests at once, retry in 1.000 s");
        assert_eq!(refused.error.kind(), Kind::Throttled);
        drop(first);
        let third = limits.enter("a").unwrap();
        assert!(limits.enter("a").is_err());
        drop((second, third));
        assert_eq!(limits.running.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_limits_need_no_state() {
        assert!(ClientLimits::new(None, None).is_none());
    }
}
