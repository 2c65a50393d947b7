//! Open connections by client address, for the setting `max_connections_per_address`.

use crate::settings::network::network;
use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// Open connections by client address.
#[derive(Debug)]
pub(crate) struct ClientAddresses {
    limit: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One open connection. Dropping it frees its place.
#[derive(Debug)]
pub(crate) struct AddressGuard {
    addresses: Arc<ClientAddresses>,
    client: IpAddr,
}

impl ClientAddresses {
    /// Allows `limit` connections of each address.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, open: Mutex::default() }
    }

    /// Counts a connection; `None` if its client has as many as are allowed.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<AddressGuard> {
        let client = network(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(client).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(AddressGuard { addresses: Arc::clone(self), client })
    }
}

impl Drop for AddressGuard {
    fn drop(&mut self) {
        let mut open = self.addresses.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(self.client) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_an_address_are_freed_again() {
        let addresses = Arc::new(ClientAddresses::new(2));
        let enter = |address: &str| addresses.enter(address.parse().unwrap());
        let (one, two) = (enter("10.0.0.1").unwrap(), enter("::ffff:10.0.0.1").unwrap());
        assert!(enter("10.0.0.1").is_none());
        let other = enter("10.0.0.2").unwrap();
        drop(one);
        let three = enter("10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").is_none());
        drop((two, three, other));
        assert!(addresses.open.lock().unwrap().is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let addresses = Arc::new(ClientAddresses::new(1));
        let _one = addresses.enter("2001:db8::1".parse().unwrap()).unwrap();
        assert!(addresses.enter("2001:db8::ffff".parse().unwrap()).is_none());
        assert!(addresses.enter("2001:db8:0:1::1".parse().unwrap()).is_some());
    }
}
