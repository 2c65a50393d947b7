//! Open connections by client address, for the setting `max_connections_per_address`.

use crate::settings::network::network;
use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

/// Open connections by client address. They are counted without a limit too, since it may be set while they are open.
#[derive(Debug, Default)]
pub(crate) struct ClientAddresses(Mutex<HashMap<IpAddr, usize>>);

/// One open connection. Dropping it frees its place.
#[derive(Debug)]
pub(crate) struct AddressGuard {
    addresses: Arc<ClientAddresses>,
    client: IpAddr,
}

impl ClientAddresses {
    /// Counts a connection; `None` if its client has `limit` already, where 0 is no limit.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr, limit: usize) -> Option<AddressGuard> {
        let client = network(address);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(client).or_default();
        if limit > 0 && *count >= limit {
            return None;
        }
        *count += 1;
        Some(AddressGuard { addresses: Arc::clone(self), client })
    }
}

impl Drop for AddressGuard {
    fn drop(&mut self) {
        let mut open = self.addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let addresses = Arc::new(ClientAddresses::default());
        let enter = |address: &str| addresses.enter(address.parse().unwrap(), 2);
        let (one, two) = (enter("10.0.0.1").unwrap(), enter("::ffff:10.0.0.1").unwrap());
        assert!(enter("10.0.0.1").is_none());
        let other = enter("10.0.0.2").unwrap();
        drop(one);
        let three = enter("10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").is_none());
        drop((two, three, other));
        assert!(addresses.0.lock().unwrap().is_empty());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let addresses = Arc::new(ClientAddresses::default());
        let enter = |address: &str| addresses.enter(address.parse().unwrap(), 1);
        let _one = enter("2001:db8::1").unwrap();
        assert!(enter("2001:db8::ffff").is_none());
        assert!(enter("2001:db8:0:1::1").is_some());
    }

    #[test]
    fn connections_without_a_limit_count_for_a_later_one() {
        let addresses = Arc::new(ClientAddresses::default());
        let enter = |limit| addresses.enter("10.0.0.1".parse().unwrap(), limit);
        let unlimited: Vec<_> = (0..3).map(|_| enter(0).unwrap()).collect();
        assert!(enter(3).is_none());
        assert!(enter(4).is_some());
        drop(unlimited);
        assert!(enter(1).is_some());
    }
}
