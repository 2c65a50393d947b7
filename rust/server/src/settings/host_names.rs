//! Names of hosts: their parts, and those that the owner of a domain cannot bind to another machine.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str,
};

/// Entry of the setting `allowed_hosts` for any name.
pub(crate) const ANY: &str = "*";

/// Reports whether a host is an address, localhost, or a name of `allowed_hosts`: no web page has it by its own name.
pub(crate) fn is_fixed(host: &[u8], allowed: &[String]) -> bool {
    let is_fixed = |name: &str| is_local(name) || address(name).is_some() || is_in(allowed, name);
    allowed.iter().any(|name| name == ANY) || name(host).is_some_and(is_fixed)
}

/// Reports whether the rest is empty, or a colon and digits.
pub(crate) fn is_port(rest: &[u8]) -> bool {
    rest.is_empty() || (rest[0] == b':' && rest[1..].iter().all(u8::is_ascii_digit))
}

/// Returns the name without port and trailing dot; `None` for malformed hosts.
pub(crate) fn name(host: &[u8]) -> Option<&str> {
    let host = str::from_utf8(host).ok()?;
    let end = match host.starts_with('[') {
        true => host.find(']')? + 1,
        false => host.find(':').unwrap_or(host.len()),
    };
    let (name, port) = host.split_at(end);
    is_port(port.as_bytes()).then(|| name.strip_suffix('.').unwrap_or(name))
}

pub(crate) fn address(name: &str) -> Option<IpAddr> {
    match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => name.parse::<Ipv4Addr>().ok().map(IpAddr::from),
    }
}

pub(crate) fn is_local(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.eq_ignore_ascii_case("localhost") || address(name).is_some_and(|address| address.to_canonical().is_loopback())
}

pub(crate) fn is_in(allowed: &[String], name: &str) -> bool {
    allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
}
