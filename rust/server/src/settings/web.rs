//! Settings for web pages of other origins, and for proxies in front of the server.

use std::{net::IpAddr, str::FromStr, time::Duration};

/// Entry of the setting `cors_origins` for any origin.
pub(crate) const ANY_ORIGIN: &str = "*";

/// Rules for web pages of other origins.
#[derive(Clone, Debug, Default)]
pub struct WebSettings {
    /// Origins whose pages may read responses, as browsers write them; `*` for any. Empty for none.
    pub cors_origins: Vec<String>,
    /// Time for which browsers use TLS only, from a response over TLS on; `None` for no such header.
    pub hsts: Option<Duration>,
}

/// Peers that are proxies: what they say of their clients is believed.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    networks: Vec<Network>,
    /// Programs that connect to a Unix socket.
    unix: bool,
}

/// Name of Unix sockets in the setting `trusted_proxies`.
const UNIX: &str = "unix";

impl TrustedProxies {
    /// Reads networks like `10.0.0.0/8`, addresses, and `unix`.
    ///
    /// # Errors
    /// The entry that is none of them.
    pub fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, &'a str> {
        let mut proxies = Self::default();
        for entry in entries {
            match entry {
                UNIX => proxies.unix = true,
                entry => proxies.networks.push(entry.parse().map_err(|()| entry)?),
            }
        }
        Ok(proxies)
    }

    /// Reports whether a peer is a proxy; `None` for a Unix socket.
    pub(crate) fn contain(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            None => self.unix,
            Some(peer) => self.networks.iter().any(|network| network.contains(peer)),
        }
    }
}

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug)]
struct Network {
    base: u128,
    /// Number of bits after those.
    host_bits: u32,
}

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        // A shift by all bits is of a network with every address.
        (bits(address) ^ self.base).checked_shr(self.host_bits).unwrap_or(0) == 0
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = text.split_once('/').unzip();
        let address: IpAddr = address.unwrap_or(text).parse().map_err(|_| ())?;
        let longest: u32 = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(longest), str::parse).map_err(|_| ())?;
        let host_bits = longest.checked_sub(prefix).ok_or(())?;
        Ok(Self { base: bits(address), host_bits })
    }
}

/// The bits of an address, where IPv4 is a network of IPv6.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
    .to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contain(networks: &[&str], address: &str) -> bool {
        TrustedProxies::new(networks.iter().copied()).unwrap().contain(address.parse().ok())
    }

    #[test]
    fn networks_contain_their_addresses() {
        assert!(contain(&["10.0.0.0/8"], "10.255.0.1") && !contain(&["10.0.0.0/8"], "11.0.0.1"));
        assert!(contain(&["10.0.0.0/8"], "::ffff:10.0.0.1"));
        assert!(contain(&["10.0.0.1"], "10.0.0.1") && !contain(&["10.0.0.1"], "10.0.0.2"));
        assert!(contain(&["0.0.0.0/0"], "1.2.3.4") && !contain(&["0.0.0.0/0"], "2001:db8::1"));
        assert!(contain(&["::/0"], "2001:db8::1") && contain(&["::/0"], "1.2.3.4"));
        assert!(contain(&["fd00::/8", "127.0.0.1"], "fd12::1"));
        assert!(contain(&["unix"], "") && !contain(&["10.0.0.0/8"], "") && !contain(&["unix"], "10.0.0.1"));
    }

    #[test]
    fn malformed_networks_are_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "a.example", "::/129", "10.0.0.1:80"] {
            assert_eq!(TrustedProxies::new([text]).unwrap_err(), text);
        }
    }
}
