//! Protection from web pages: DNS rebinding by the header `Host`, forged requests by `Origin`.
//!
//! A browser lets every page send requests to any address, those of this machine included. A page whose name resolves
//! to this server can even read the responses; `Host` still has that name.

use super::host_syntax;
use crate::settings::host_names::{ANY, address, is_fixed, is_in, is_local, is_port, name};
use http::{HeaderMap, HeaderValue, Method, Uri, Version, header::HOST, header::ORIGIN};
use penstock_core::{Error, Kind, Result};

/// Most frequent names of clients on this machine, compared without parsing.
const COMMON_HOSTS: [&[u8]; 2] = [b"127.0.0.1", b"localhost"];

/// Header that browsers set on a page's request; pages cannot set it.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Longest part of a header that an error repeats, in bytes.
const MAX_SHOWN_BYTES: usize = 256;

/// Decides whether a TCP listener checks the hosts of requests.
pub(crate) fn are_checked(allowed: &[String], is_loopback: bool) -> bool {
    (is_loopback || !allowed.is_empty()) && !allowed.iter().any(|name| name == ANY)
}

/// Names that requests may use for a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    /// Names of the setting.
    pub(crate) allowed: &'a [String],
    /// Set where other machines connect: probes use addresses, and a page cannot redirect an address.
    pub(crate) addresses: bool,
}

/// Refuses a request without exactly one well-formed host, and one whose host is not among `names`,
/// if they are given.
///
/// # Errors
/// `InvalidInput` or `Forbidden` that shows the name.
pub(crate) fn check_host(names: Option<Names<'_>>, version: Version, uri: &Uri, headers: &HeaderMap) -> Result<()> {
    let mut given = headers.get_all(HOST).iter();
    if let (Some(host), None, None) = (given.next(), given.next(), uri.authority())
        && is_common(host.as_bytes())
    {
        return Ok(());
    }
    host_syntax::check(version, uri, headers)?;
    let Some(Names { allowed, addresses }) = names else { return Ok(()) };
    let is_known = |host: &&[u8]| {
        let is_known = |name: &str| {
            name.is_empty() || is_local(name) || is_in(allowed, name) || (addresses && address(name).is_some())
        };
        name(host).is_some_and(is_known)
    };
    match host_names(uri, headers).find(|host| !is_known(host)) {
        None => Ok(()),
        Some(host) => Err(refused(format!(
            "the header 'Host' is '{}', expected localhost, a loopback address, or a name that the server's setting \
             'allowed_hosts' has",
            excerpt(host)
        ))),
    }
}

/// Refuses a request with which a web page of another origin could change state.
///
/// Only browsers send `Origin` and `Sec-Fetch-Site`. A page of the same origin is the server's own, unless its name
/// was rebound; that is not possible for addresses and allowed names.
///
/// # Errors
/// `Forbidden` that shows the header.
pub(crate) fn check_page(allowed: &[String], method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<()> {
    let (origin, site) = (headers.get(ORIGIN), headers.get(SEC_FETCH_SITE));
    if method.is_safe() || (origin.is_none() && site.is_none()) {
        return Ok(());
    }
    let host = host_names(uri, headers).next().unwrap_or_default();
    let (header, given, is_own) = match (site, origin) {
        // A proxy may have changed `Host`; the browser knows the original name.
        (Some(site), _) => ("Sec-Fetch-Site", site, site == "same-origin" || site == "none"),
        (None, Some(origin)) => ("Origin", origin, is_same_origin(origin, host)),
        (None, None) => return Ok(()),
    };
    if !is_own {
        return Err(refused(format!(
            "only inference is open to web pages of other origins: the header '{header}' is '{}', and 'Host' is '{}'",
            excerpt(given.as_bytes()),
            excerpt(host)
        )));
    }
    if is_fixed(host, allowed) {
        return Ok(());
    }
    Err(refused(format!(
        "only inference is open to web pages by any name: the header 'Host' is '{}', expected an address, localhost, or \
         a name that the server's setting 'allowed_hosts' has",
        excerpt(host)
    )))
}

fn refused(why: String) -> Error {
    Error::new(Kind::Forbidden, why)
}

/// Returns the hosts that a request names: usually one.
fn host_names<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> impl Iterator<Item = &'a [u8]> {
    let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
    authority.into_iter().chain(headers.get_all(HOST).iter().map(HeaderValue::as_bytes))
}

fn is_common(host: &[u8]) -> bool {
    COMMON_HOSTS.iter().any(|usual| host.strip_prefix(*usual).is_some_and(is_port))
}

/// Reports whether an origin is this server. The scheme is ignored: a proxy may terminate TLS.
fn is_same_origin(origin: &HeaderValue, host: &[u8]) -> bool {
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, authority)| authority.as_bytes().eq_ignore_ascii_case(host))
}

fn excerpt(value: &[u8]) -> String {
    let shown: String = value.escape_ascii().take(MAX_SHOWN_BYTES).map(char::from).collect();
    if value.len() > MAX_SHOWN_BYTES { shown + "..." } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    const NONE: Names<'_> = Names { allowed: &[], addresses: false };

    fn host(allowed: &[&str], host: &str) -> Result<()> {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        check_host(
            Some(Names { allowed: &allowed, addresses: false }),
            Version::HTTP_11,
            &Uri::from_static("/"),
            &headers(&[("host", host)]),
        )
    }

    #[test]
    fn local_hosts_are_allowed_with_any_port() {
        for name in ["localhost", "LocalHost", "a.b.localhost", "localhost.", "127.0.0.1", "127.9.9.9", "[::1]"] {
            for port in ["", ":8000", ":1", ":"] {
                assert!(host(&[], &format!("{name}{port}")).is_ok(), "{name}{port}");
            }
        }
        assert!(host(&[], "[::ffff:127.0.0.1]:80").is_ok());
        // HTTP/1.0 has no such header, and pages are not sent by it.
        assert!(check_host(Some(NONE), Version::HTTP_10, &Uri::from_static("/"), &HeaderMap::new()).is_ok());
    }

    #[test]
    fn other_hosts_must_be_allowed() {
        for name in [
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "notlocalhost",
            "127.0.0.1.evil.example",
            "127.0.0.1evil",
            "0.0.0.0",
            "[::]:8000",
            "10.0.0.1",
            "127.1",
        ] {
            let error = host(&["other.example"], name).expect_err(name);
            assert_eq!(error.kind(), Kind::Forbidden);
            assert!(error.message().starts_with(&format!("the header 'Host' is '{name}', expected localhost")));
        }
        for name in ["localhost:80:80", "localhost:x", "user@localhost", "[::1", "[::1]x"] {
            assert_eq!(host(&[], name).expect_err(name).kind(), Kind::InvalidInput);
        }
        for name in ["Proxy.Example", "proxy.example:443", "proxy.example.", "[2001:db8::1]:80"] {
            assert!(host(&["proxy.example", "[2001:db8::1]"], name).is_ok(), "{name}");
        }
    }

    #[test]
    fn ip_addresses_are_allowed_for_remote_listeners() {
        let names = Names { addresses: true, ..NONE };
        let check =
            |host| check_host(Some(names), Version::HTTP_11, &Uri::from_static("/"), &headers(&[("host", host)]));
        assert!(check("10.0.0.1:8000").is_ok() && check("[2001:db8::1]").is_ok());
        assert!(check("evil.example").is_err());
    }

    #[test]
    fn uri_and_host_header_are_both_checked() {
        let check =
            |uri, host| check_host(Some(NONE), Version::HTTP_11, &Uri::from_static(uri), &headers(&[("host", host)]));
        assert!(check("http://evil.example/", "localhost").is_err());
        assert!(check("http://localhost/", "evil").is_err());
    }

    #[test]
    fn long_host_is_truncated_in_the_error() {
        let long = host(&[], &"x".repeat(5000)).unwrap_err();
        assert!(long.message().contains(&format!("'{}...'", "x".repeat(MAX_SHOWN_BYTES))));
    }

    #[test]
    fn loopback_listeners_check_hosts_and_others_if_configured() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(are_checked(&[], true) && !are_checked(&[], false));
        assert!(are_checked(&names(&["a"]), false));
        assert!(!are_checked(&names(&["a", "*"]), true));
    }

    fn page(allowed: &[&str], given: &[(&'static str, &str)]) -> Result<()> {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        check_page(&allowed, &Method::POST, &Uri::from_static("/"), &headers(given))
    }

    #[test]
    fn cross_origin_pages_are_refused() {
        let local = ("host", "localhost:8000");
        for (header, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", ""),
            ("origin", "http://localhost"),
            ("origin", "http://localhost:8001"),
            ("origin", "http://localhost:8000.evil.example"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let error = page(&[], &[local, (header, value)]).expect_err(value);
            assert_eq!(error.kind(), Kind::Forbidden);
            assert!(error.message().contains(&format!("is '{value}', and 'Host' is 'localhost:8000'")));
        }
        assert!(page(&[], &[local]).is_ok());
        assert!(page(&[], &[local, ("origin", "http://localhost:8000")]).is_ok());
        // Behind a proxy that has TLS and calls by another name.
        let own = [local, ("origin", "https://public.example"), ("sec-fetch-site", "same-origin")];
        assert!(page(&[], &own).is_ok());
        let read =
            check_page(&[], &Method::GET, &Uri::from_static("/"), &headers(&[("origin", "http://evil.example")]));
        assert!(read.is_ok());
    }

    #[test]
    fn rebound_dns_name_is_not_same_origin() {
        let rebound = [("host", "evil.example:8000"), ("origin", "http://evil.example:8000")];
        let error = page(&[], &rebound).unwrap_err();
        assert!(error.message().contains("'Host' is 'evil.example:8000', expected an address"), "{}", error.message());
        assert!(page(&["evil.example"], &rebound).is_ok() && page(&["*"], &rebound).is_ok());
        assert!(page(&[], &[("host", "10.0.0.7:8000"), ("origin", "http://10.0.0.7:8000")]).is_ok());
        let fetched = [("host", "evil.example:8000"), ("sec-fetch-site", "same-origin")];
        assert!(page(&[], &fetched).is_err());
    }
}
