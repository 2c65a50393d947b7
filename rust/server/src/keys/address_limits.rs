//! Limits of clients without a key, by their addresses.

use super::{
    key::Denied,
    limits::{ClientLimits, ClientSlot},
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
    /// Limits of an address that was not seen before.
    limits: Arc<ClientLimits>,
    clients: Mutex<LruCache<IpAddr, Arc<ClientLimits>>>,
}

impl AddressLimits {
    /// Applies limits to each address.
    pub(super) fn new(limits: Arc<ClientLimits>) -> Arc<Self> {
        Arc::new(Self { limits, clients: Mutex::new(LruCache::new(MOST_ADDRESSES)) })
    }

    /// Reports whether others are the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.limits.is_like(&other.limits)
    }

    /// Admits a request of an address.
    ///
    /// # Errors
    /// `Throttled` with the time after which a retry may succeed.
    pub(crate) fn enter(&self, address: IpAddr) -> Result<ClientSlot, Denied> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let limits = Arc::clone(clients.get_or_insert(network(address), || self.limits.unused()));
        drop(clients);
        limits.enter("a client without a key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::rate::Rate;

    #[test]
    fn each_address_has_its_own_rate() {
        let rate = Rate::parse("1/h", None).unwrap();
        let limits = AddressLimits::new(ClientLimits::new(Some(rate), None).unwrap());
        let is_admitted = |address: &str| limits.enter(address.parse().unwrap()).is_ok();
        assert_eq!(["10.0.0.1", "10.0.0.2", "10.0.0.1"].map(is_admitted), [true, true, false]);
        assert_eq!(["2001:db8::1", "2001:db8::2", "2001:db8:1::1"].map(is_admitted), [true, false, true]);
    }
}
