//! URL of a server.

use penstock_core::{Error, Result};
use std::{fmt, path::PathBuf};

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Host name or IP address, and port.
    Tcp(String, u16),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

/// A parsed URL.
///
/// ```
/// use penstock_client::Target;
///
/// let target = Target::parse("https://models.example/team-a")?;
/// assert!(target.tls && !target.grpc);
/// assert_eq!(target.authority(), "models.example");
/// assert_eq!(target.prefix, "/team-a");
/// # Ok::<(), penstock_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// gRPC; else REST.
    pub grpc: bool,
    /// Encrypt the connection.
    pub tls: bool,
    /// Address to connect to.
    pub address: Address,
    /// REST only: prefix of every path; empty, or `/...` without a slash at its end.
    pub prefix: String,
}

const FORMS: &str =
    "http://HOST:PORT, https://HOST, grpc://HOST:PORT, grpcs://HOST:PORT, unix:/PATH or grpc+unix:/PATH";

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    /// `InvalidInput` with the accepted forms.
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = |why: &str| Error::invalid(format!("the URL '{url}' {why}, expected {FORMS}"));
        let (scheme, rest) = url.split_once(':').ok_or_else(|| wrong("has no scheme"))?;
        let scheme = scheme.to_ascii_lowercase();
        let (grpc, tls) = match scheme.as_str() {
            "http" => (false, false),
            "https" => (false, true),
            "grpc" => (true, false),
            "grpcs" => (true, true),
            "unix" | "http+unix" => return Self::unix(false, rest).ok_or_else(|| wrong("names no path")),
            "grpc+unix" => return Self::unix(true, rest).ok_or_else(|| wrong("names no path")),
            _ => return Err(wrong("has a scheme that is not known")),
        };
        let rest = rest.strip_prefix("//").ok_or_else(|| wrong("has no '//' after its scheme"))?;
        if rest.contains(['?', '#', '@']) || rest.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(wrong("has more than a host, a port and a path"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let prefix = path.trim_end_matches('/').to_owned();
        if grpc && !prefix.is_empty() {
            return Err(wrong("has a path, which gRPC does not have"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| wrong("has no host, or no port that is a number"))?;
        let default = match (grpc, tls) {
            (false, false) => Some(80),
            (_, true) => Some(443),
            (true, false) => None,
        };
        let port = port.or(default).ok_or_else(|| wrong("has no port"))?;
        Ok(Self { grpc, tls, address: Address::Tcp(host.to_owned(), port), prefix })
    }

    fn unix(grpc: bool, path: &str) -> Option<Self> {
        let path = path.strip_prefix("//").filter(|rest| rest.starts_with('/')).unwrap_or(path);
        let address = Address::Unix(PathBuf::from(path));
        (!path.is_empty()).then_some(Self { grpc, tls: false, address, prefix: String::new() })
    }

    /// Host and port that requests name.
    pub fn authority(&self) -> String {
        match &self.address {
            Address::Unix(_) => "localhost".to_owned(),
            Address::Tcp(host, port) => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                let default = if self.tls { 443 } else { 80 };
                if *port == default { host } else { format!("{host}:{port}") }
            }
        }
    }

    /// Expected host in the certificate.
    pub fn host(&self) -> &str {
        match &self.address {
            Address::Unix(_) => "localhost",
            Address::Tcp(host, _) => host,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.grpc { "grpc" } else { "http" };
        match &self.address {
            Address::Unix(path) => write!(f, "{scheme}+unix:{}", path.display()),
            Address::Tcp(..) => {
                write!(f, "{scheme}{}://{}{}", if self.tls { "s" } else { "" }, self.authority(), self.prefix)
            }
        }
    }
}

/// Host without brackets, and the port if present.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map(|port| port.parse().ok()).map_or(Some(None), |port| port.map(Some))?;
    (!host.is_empty() && port != Some(0)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_url_scheme_is_parsed() {
        for (url, shown, authority) in [
            ("http://localhost:8000", "http://localhost:8000", "localhost:8000"),
            ("HTTP://h/", "http://h", "h"),
            ("http://h:80/a/b/", "http://h/a/b", "h"),
            ("https://h", "https://h", "h"),
            ("https://h:444", "https://h:444", "h:444"),
            ("grpc://[::1]:8001", "grpc://[::1]:8001", "[::1]:8001"),
            ("grpcs://h", "grpcs://h", "h"),
            ("unix:/run/a.sock", "http+unix:/run/a.sock", "localhost"),
            ("unix:///run/a.sock", "http+unix:/run/a.sock", "localhost"),
            ("unix:a.sock", "http+unix:a.sock", "localhost"),
            ("grpc+unix:/run/a.sock", "grpc+unix:/run/a.sock", "localhost"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(target.authority(), authority);
        }
    }

    #[test]
    fn invalid_urls_are_refused_with_the_expected_forms() {
        for (url, why) in [
            ("localhost", "has no scheme"),
            ("localhost:8000", "has a scheme that is not known"),
            ("ftp://h", "has a scheme that is not known"),
            ("http:h", "has no '//' after its scheme"),
            ("http://", "has no host, or no port that is a number"),
            ("http://h:", "has no host, or no port that is a number"),
            ("http://h:0", "has no host, or no port that is a number"),
            ("http://h:99999", "has no host, or no port that is a number"),
            ("http://[::1", "has no host, or no port that is a number"),
            ("grpc://u:p@h:1", "has more than a host, a port and a path"),
            ("http://h/?a", "has more than a host, a port and a path"),
            ("http://h\r\nx: y", "has more than a host, a port and a path"),
            ("grpc://h", "has no port"),
            ("grpc://h:1/a", "has a path, which gRPC does not have"),
            ("unix:", "names no path"),
        ] {
            let error = Target::parse(url).unwrap_err();
            assert_eq!(error.message(), format!("the URL '{url}' {why}, expected {FORMS}"));
        }
    }
}
