//! The client of a request that a trusted proxy forwarded, by `X-Forwarded-For` and Envoy's
//! `X-Forwarded-Client-Cert`.

use crate::settings::TrustedProxies;
use http::HeaderMap;
use penstock_core::{ClientCertificate, ClientIdentity};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

const FORWARDED_FOR: &str = "x-forwarded-for";
const CLIENT_CERT: &str = "x-forwarded-client-cert";

/// Returns the client that the headers name; `None` for a request of the proxy's own, which has neither header.
///
/// The certificate of the connection is the proxy's, and not the client's.
pub(super) fn client(
    proxies: &TrustedProxies,
    connection: &ClientIdentity,
    headers: &HeaderMap,
) -> Option<ClientIdentity> {
    if !headers.contains_key(FORWARDED_FOR) && !headers.contains_key(CLIENT_CERT) {
        return None;
    }
    let address = address(proxies, connection.address, headers);
    Some(ClientIdentity { address, certificate: certificate(headers).map(Arc::new), ..ClientIdentity::default() })
}

/// The address before the last proxy that is trusted. Each proxy appends the one of its peer: what stands further left
/// was written by the client.
fn address(proxies: &TrustedProxies, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
    let lines = headers.get_all(FORWARDED_FOR).iter().rev();
    let entries = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    let mut nearest = peer;
    for entry in entries {
        // Beyond an entry that is no address, such as `unknown`, nothing is known.
        let Some(address) = parse(entry.trim()) else { break };
        nearest = Some(address);
        if !proxies.contain(nearest) {
            break;
        }
    }
    nearest
}

/// Reads an address, which may have a port, and brackets.
fn parse(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse().or_else(|_| entry.parse::<SocketAddr>().map(|socket| socket.ip()));
    address.ok().map(|address| address.to_canonical())
}

/// The certificate that the last proxy saw: the last element, with the keys `Hash`, `Subject`, `URI` and `DNS`.
fn certificate(headers: &HeaderMap) -> Option<ClientCertificate> {
    let line = headers.get_all(CLIENT_CERT).iter().next_back()?.to_str().ok()?;
    let last = split(line, ',').last()?;
    let mut found = ClientCertificate::default();
    for pair in split(last, ';') {
        let (key, value) = pair.split_once('=')?;
        let value = unquoted(value.trim());
        match key.trim() {
            key if key.eq_ignore_ascii_case("hash") => found.fingerprint = value.to_ascii_lowercase(),
            key if key.eq_ignore_ascii_case("subject") => found.subject = value,
            key if key.eq_ignore_ascii_case("uri") => found.uris.push(value),
            key if key.eq_ignore_ascii_case("dns") => found.dns.push(value),
            _ => {}
        }
    }
    Some(found)
}

/// Splits at a character outside of quotation marks.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |character| {
        let is_separator = character == separator && !quoted;
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        is_separator
    })
}

fn unquoted(value: &str) -> String {
    match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
        Some(inner) => inner.replace("\\\"", "\""),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn address_of(lines: &[&str]) -> String {
        let proxies = TrustedProxies::new(["10.0.0.0/8"]).unwrap();
        let connection = ClientIdentity { address: Some("10.0.0.9".parse().unwrap()), ..ClientIdentity::default() };
        let given: Vec<_> = lines.iter().map(|line| (FORWARDED_FOR, *line)).collect();
        client(&proxies, &connection, &headers(&given)).unwrap().address.unwrap().to_string()
    }

    #[test]
    fn address_is_the_one_that_the_last_trusted_proxy_saw() {
        assert_eq!(address_of(&["192.0.2.1"]), "192.0.2.1");
        assert_eq!(address_of(&["6.6.6.6, 192.0.2.1"]), "192.0.2.1");
        assert_eq!(address_of(&["6.6.6.6", "192.0.2.1, 10.1.1.1", "10.0.0.2"]), "192.0.2.1");
        assert_eq!(address_of(&["10.1.1.1, 10.2.2.2"]), "10.1.1.1");
        assert_eq!(address_of(&["192.0.2.1:4711"]), "192.0.2.1");
        assert_eq!(address_of(&["2001:db8::1"]), "2001:db8::1");
        assert_eq!(address_of(&["[2001:db8::1]:80, [2001:db8::2]"]), "2001:db8::2");
        assert_eq!(address_of(&["::ffff:192.0.2.1"]), "192.0.2.1");
    }

    #[test]
    fn nothing_beyond_a_malformed_entry_is_believed() {
        assert_eq!(address_of(&["192.0.2.1, unknown"]), "10.0.0.9");
        assert_eq!(address_of(&["192.0.2.1, unknown, 10.0.0.1"]), "10.0.0.1");
        assert_eq!(address_of(&[""]), "10.0.0.9");
    }

    #[test]
    fn request_of_the_proxy_itself_keeps_the_identity_of_the_connection() {
        let proxies = TrustedProxies::new(["unix"]).unwrap();
        assert!(client(&proxies, &ClientIdentity::default(), &headers(&[("host", "a")])).is_none());
    }

    #[test]
    fn certificate_is_that_of_the_last_element() {
        let line = r#"Hash=AA;Subject="CN=evil", By=spiffe://proxy;Hash=0aF;Subject="CN=\"a,b;c\",O=Ä";URI=spiffe://x;DNS=a.example;DNS=b.example"#;
        let mut given = HeaderMap::new();
        given.insert(CLIENT_CERT, http::HeaderValue::from_bytes(line.replace('Ä', "A").as_bytes()).unwrap());
        let found = certificate(&given).unwrap();
        assert_eq!(found.fingerprint, "0af");
        assert_eq!(found.subject, "CN=\"a,b;c\",O=A");
        assert_eq!(found.uris, ["spiffe://x"]);
        assert_eq!(found.dns, ["a.example", "b.example"]);
        assert!(certificate(&headers(&[(CLIENT_CERT, "nonsense")])).is_none());
    }
}
