//! Options of a client and of a call.

use penstock_wire::coding::Coding;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// Options of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// Headers (gRPC: metadata) of every call.
    pub headers: Vec<(String, String)>,
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// Retry policy.
    pub retries: Retries,
    /// Delay of a hedged second attempt; `None` disables hedging.
    pub hedge: Option<Duration>,
    /// Compression of requests.
    pub compression: Option<Coding>,
    /// Accept compressed responses.
    pub accept_compression: bool,
    /// REST only: send tensors as binary data, else as JSON.
    pub binary: bool,
    /// Maximum size of a response, in bytes.
    pub max_response_bytes: usize,
    /// Maximum number of idle connections.
    pub max_idle: usize,
    /// Certificates.
    pub tls: TlsOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            retries: Retries::default(),
            hedge: None,
            compression: None,
            accept_compression: false,
            binary: true,
            max_response_bytes: 1 << 30,
            max_idle: 64,
            tls: TlsOptions::default(),
        }
    }
}

/// Retry policy.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// Maximum number of retries.
    pub attempts: u32,
    /// Delay before the first retry; it doubles with each.
    pub backoff: Duration,
    /// Maximum delay, also where the server requests more.
    pub max_backoff: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 0, backoff: Duration::from_millis(50), max_backoff: Duration::from_secs(5) }
    }
}

/// Certificates.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// PEM file of trusted authorities, instead of the platform's.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the client's certificate and its chain.
    pub certificate: Option<PathBuf>,
    /// PEM file of the key of [`certificate`](Self::certificate).
    pub key: Option<PathBuf>,
    /// Expected name in the server's certificate, instead of the URL's host.
    pub server_name: Option<String>,
}

/// Driver of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The calling thread, with [`crate::blocking::drive`].
    Blocking,
    /// The runtime, with [`crate::runtime::spawn`], or an event loop, with [`crate::InlineCall`].
    Async,
}

/// Options of one call.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Headers (gRPC: metadata), in addition to the client's.
    pub headers: Vec<(String, String)>,
    /// Timeout, which is sent to the server.
    pub timeout: Option<Duration>,
    /// End of the timeout.
    pub deadline: Option<Instant>,
    /// Allow a hedged second attempt.
    pub hedge: bool,
}

impl CallOptions {
    /// Options whose deadline counts from now.
    pub fn new(headers: Vec<(String, String)>, timeout: Option<Duration>) -> Self {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self { headers, timeout, deadline, hedge: true }
    }
}
