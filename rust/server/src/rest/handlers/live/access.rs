//! Clients that may watch: those of the setting `live`, and no web page of another origin.

use crate::{
    settings::{LiveAccess, host_names::is_fixed},
    state::Context,
};
use http::{HeaderMap, header::HOST};
use penstock_core::{Error, Kind, Result};

/// Headers that proxies add: their clients are somewhere else.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Refuses requests that the setting does not allow. With `off` the router finds no route.
///
/// # Errors
/// `Forbidden` that names the setting or the header.
pub(crate) fn check_access(context: &Context, headers: &HeaderMap) -> Result<()> {
    let config = &context.app.config;
    if config.live != LiveAccess::On {
        check_local(context.local_peer, &config.allowed_hosts, headers)?;
    }
    check_origin(headers)
}

/// Reports whether a program of this machine sent the request, without a proxy between.
pub(crate) fn is_local(context: &Context, headers: &HeaderMap) -> bool {
    check_local(context.local_peer, &context.app.config.allowed_hosts, headers).is_ok()
}

fn check_local(local_peer: bool, allowed: &[String], headers: &HeaderMap) -> Result<()> {
    let refused = |why: &str| {
        let text = format!("/live is for programs of this machine, as the server's setting 'live' has it: {why}");
        Err(Error::new(Kind::Forbidden, text))
    };
    if !local_peer {
        return refused("the client is on another one");
    }
    if let Some(name) = FORWARDED.into_iter().find(|name| headers.contains_key(*name)) {
        return refused(&format!("a proxy forwarded the request, by the header '{name}'"));
    }
    // A web page whose name was bound to this machine's address reaches listeners for others too.
    if headers.get_all(HOST).iter().any(|host| !is_fixed(host.as_bytes(), allowed)) {
        return refused("the header 'Host' is neither localhost, an address, nor a name that 'allowed_hosts' has");
    }
    Ok(())
}

/// Refuses what a web page of another origin loads. A link to the page is followed.
fn check_origin(headers: &HeaderMap) -> Result<()> {
    let is =
        |name: &str, values: &[&str]| headers.get(name).is_some_and(|given| values.iter().any(|value| given == value));
    if is("sec-fetch-site", &["cross-site", "same-site"]) && !is("sec-fetch-mode", &["navigate"]) {
        return Err(Error::new(
            Kind::Forbidden,
            "/live is for its own page: the header 'Sec-Fetch-Site' names another, expected same-origin",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn local_is_for_direct_requests_of_this_machine() {
        let check =
            |local, given: &[(&'static str, &str)]| check_local(local, &["box.example".to_owned()], &headers(given));
        for host in ["localhost", "a.localhost:80", "127.0.0.1:8000", "[::1]:8000", "10.0.0.7", "box.example:80"] {
            assert!(check(true, &[("host", host)]).is_ok(), "{host}");
        }
        assert!(check(true, &[]).is_ok(), "HTTP/2 has no such header");
        assert!(check(false, &[]).unwrap_err().message().contains("the client is on another one"));
        for host in ["evil.example", "localhost.evil.example:8000", "a b"] {
            assert!(check(true, &[("host", host)]).unwrap_err().message().contains("'Host'"), "{host}");
        }
        for name in FORWARDED {
            assert!(check(true, &[(name, "x")]).unwrap_err().message().contains(name), "{name}");
        }
    }

    #[test]
    fn pages_of_other_origins_may_only_link() {
        let check =
            |site: &str, mode: &str| check_origin(&headers(&[("sec-fetch-site", site), ("sec-fetch-mode", mode)]));
        assert!(check("same-origin", "cors").is_ok() && check("none", "navigate").is_ok());
        assert!(check("cross-site", "navigate").is_ok());
        assert!(check("cross-site", "no-cors").is_err() && check("same-site", "cors").is_err());
    }
}
