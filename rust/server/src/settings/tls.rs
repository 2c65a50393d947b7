//! TLS of a server's TCP addresses.

use super::live::Live;
use penstock_tls::TlsSettings;
use std::time::Duration;

/// TLS of a server's TCP addresses.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Files and rules.
    pub files: TlsSettings,
    /// Interval at which changed files are found; `None` for only on request.
    pub reload: Option<Duration>,
    /// Time that a client has for its handshake.
    pub handshake_timeout: Live<Duration>,
}
