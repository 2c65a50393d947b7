//! Networks of addresses that count as one client.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that one client may have all to itself: an end site gets at least a /64.
const IPV6_NETWORK: u128 = u128::MAX << 64;

/// The network that counts as one client: an IPv4 address, or the /64 of an IPv6 address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & IPV6_NETWORK).into(),
        address => address,
    }
}
