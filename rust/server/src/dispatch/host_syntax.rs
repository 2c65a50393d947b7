//! Syntax of the host that a request names.

use http::{HeaderMap, Uri, Version, header::HOST};
use penstock_core::{Error, Result};

/// Refuses a request without exactly one well-formed host: `Host` in HTTP/1.1, `:authority` in HTTP/2.
///
/// # Errors
/// `InvalidInput` that shows the header.
pub(crate) fn check(version: Version, uri: &Uri, headers: &HeaderMap) -> Result<()> {
    let mut hosts = headers.get_all(HOST).iter();
    let message = match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => {
            let count = headers.get_all(HOST).iter().count();
            format!("the request has {count} Host headers, expected one")
        }
        (Some(host), None) if !is_well_formed(host.as_bytes()) => {
            format!("the header Host is {host:?}, expected a name and, after a colon, a port")
        }
        (None, None) if version == Version::HTTP_11 => "the request has no Host header, expected one".to_owned(),
        _ => match uri.authority() {
            Some(authority) if !is_well_formed(authority.as_str().as_bytes()) => {
                format!(
                    "the request's authority is {:?}, expected a name and, after a colon, a port",
                    authority.as_str()
                )
            }
            _ => return Ok(()),
        },
    };
    Err(Error::invalid(message))
}

/// Reports whether a host is `uri-host [ ":" port ]` of RFC 9110, which may be empty.
fn is_well_formed(host: &[u8]) -> bool {
    let (name, port) = match host.strip_prefix(b"[") {
        Some(rest) => match rest.iter().position(|&byte| byte == b']') {
            Some(end) if end > 0 && rest[..end].iter().all(|&byte| byte == b':' || is_of_a_name(byte)) => {
                (&b""[..], &rest[end + 1..])
            }
            _ => return false,
        },
        None => host.split_at(host.iter().position(|&byte| byte == b':').unwrap_or(host.len())),
    };
    let port = port.strip_prefix(b":").or_else(|| port.is_empty().then_some(port));
    name.iter().all(|&byte| is_of_a_name(byte)) && port.is_some_and(|port| port.iter().all(u8::is_ascii_digit))
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_and_ports_are_checked() {
        for host in ["", "a", "a.b-c_d", "127.0.0.1", "x:", "x:80", "[::1]", "[fe80::1%25eth0]:8000", "%2Ftmp%2Fsock"] {
            assert!(is_well_formed(host.as_bytes()), "{host}");
        }
        for host in ["a b", "a/b", "c@d", "a/b c@d", "a:b", "a:1:2", "::1", "[::1", "[]", "[::1]x", "a,b c", "\u{fc}"] {
            assert!(!is_well_formed(host.as_bytes()), "{host}");
        }
    }
}
