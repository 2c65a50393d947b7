//! What a client is told when it is made.

use penstock_wire::coding::Coding;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// All choices of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// Headers (gRPC: metadata) of every call.
    pub headers: Vec<(String, String)>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// When to try again.
    pub retries: Retries,
    /// After how long a second attempt starts beside the first; `None` for never.
    pub hedge: Option<Duration>,
    /// How requests are compressed.
    pub compression: Option<Coding>,
    /// Whether answers may be compressed.
    pub accept_compression: bool,
    /// REST only: whether tensors travel as they lie in memory; else as JSON.
    pub binary: bool,
    /// The most bytes of one answer.
    pub max_answer: usize,
    /// The most idle connections that are kept.
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
            max_answer: 1 << 30,
            max_idle: 64,
            tls: TlsOptions::default(),
        }
    }
}

/// When and how often a call is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// How many more attempts there are.
    pub attempts: u32,
    /// The wait before the first of them; it doubles from one to the next.
    pub backoff: Duration,
    /// The longest wait, also where the server asks for more.
    pub max_backoff: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 0, backoff: Duration::from_millis(50), max_backoff: Duration::from_secs(5) }
    }
}

/// Which certificates count.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// A PEM file of authorities to trust, instead of the platform's.
    pub ca_file: Option<PathBuf>,
    /// A PEM file of the client's own certificate and its chain.
    pub certificate: Option<PathBuf>,
    /// A PEM file of the key to [`certificate`](Self::certificate).
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must have, instead of the URL's host.
    pub server_name: Option<String>,
}

/// Whose thread makes the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The caller's, with [`crate::blocking::drive`].
    Blocking,
    /// The runtime's, with [`crate::runtime::spawn`], or an event loop's, with [`crate::InlineCall`].
    Async,
}

/// How one call is to be made.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Headers (gRPC: metadata), beside the client's own.
    pub headers: Vec<(String, String)>,
    /// How long the caller waits, which the server is told.
    pub timeout: Option<Duration>,
    /// When that is over.
    pub deadline: Option<Instant>,
    /// Whether there may be a second attempt beside the first.
    pub hedge: bool,
}

impl CallOptions {
    /// From now on.
    pub fn new(headers: Vec<(String, String)>, timeout: Option<Duration>) -> Self {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self { headers, timeout, deadline, hedge: true }
    }
}
