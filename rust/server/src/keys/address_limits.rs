//! Limits of clients without a key, by their addresses.

use super::{
    key::Denied,
    limits::{ClientLimits, ClientSlot},
    rate::Rate,
};
use crate::settings::network::network;
use lru::LruCache;
use std::{
    net::IpAddr,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

/// Most addresses whose use is known. The one that was not seen for the longest time is forgotten.
const MOST_ADDRESSES: NonZeroUsize = NonZeroUsize::new(16_384).expect("not zero");

/// Limits of each address.
#[derive(Debug)]
pub(crate) struct AddressLimits {
    rate: Option<(Box<str>, Option<u64>)>,
    concurrency: Option<usize>,
    clients: Mutex<LruCache<IpAddr, Arc<ClientLimits>>>,
}

impl AddressLimits {
    /// Limits; `None` if there are none.
    ///
    /// # Errors
    /// The reason why the rate cannot be read.
    pub(super) fn new(
        rate: Option<&str>,
        burst: Option<u64>,
        concurrency: Option<usize>,
    ) -> Result<Option<Arc<Self>>, String> {
        if let Some(rate) = rate {
            Rate::parse(rate, burst)?;
        }
        let rate = rate.map(|rate| (rate.into(), burst));
        let is_limited = rate.is_some() || concurrency.is_some();
        let clients = Mutex::new(LruCache::new(MOST_ADDRESSES));
        Ok(is_limited.then(|| Arc::new(Self { rate, concurrency, clients })))
    }

    /// Reports whether others are the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (&self.rate, self.concurrency) == (&other.rate, other.concurrency)
    }

    /// Admits a request of an address.
    ///
    /// # Errors
    /// `Throttled` with the time after which a retry may succeed.
    pub(crate) fn enter(&self, address: IpAddr) -> Result<Option<ClientSlot>, Denied> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let limits = match clients.get(&network(address)) {
            Some(limits) => Arc::clone(limits),
            None => {
                // It was read before.
                let rate = self.rate.as_ref().and_then(|(rate, burst)| Rate::parse(rate, *burst).ok());
                let Some(limits) = ClientLimits::new(rate, self.concurrency) else { return Ok(None) };
                clients.put(network(address), Arc::clone(&limits));
                limits
            }
        };
        drop(clients);
        limits.enter("a client without a key").map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_rate() {
        let limits = AddressLimits::new(Some("1/h"), None, None).unwrap().unwrap();
        let is_admitted = |address: &str| limits.enter(address.parse().unwrap()).is_ok();
        assert_eq!(["10.0.0.1", "10.0.0.2", "10.0.0.1"].map(is_admitted), [true, true, false]);
        assert_eq!(["2001:db8::1", "2001:db8::2", "2001:db8:1::1"].map(is_admitted), [true, false, true]);
    }
}
