//! Everything that can be set, as plain values. Nothing here reads a file or the environment.

use super::{
    access::Access,
    control::{BatchingDebug, Control},
    header_pattern::HeaderPattern,
    shared_cache::SharedCache,
    tracing::Tracing,
};
use penstock_core::Kind;
use penstock_wire::coding::InflateLimits;
use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

/// The server's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen, and for what.
    pub listeners: Vec<Listener>,
    /// Names, without port, that `Host` may have beside local ones; `*` for any.
    pub allowed_hosts: Vec<String>,
    /// Threads that do I/O, decode and encode; 0 chooses by the number of cores.
    pub io_threads: usize,
    /// What a client may use up.
    pub limits: Limits,
    /// Whether a full queue answers 503 / UNAVAILABLE in place of 429 / RESOURCE_EXHAUSTED.
    pub overload_unavailable: bool,
    /// Whether a deadline that passed answers 503 / UNAVAILABLE in place of 504 / DEADLINE_EXCEEDED.
    pub timeout_unavailable: bool,
    /// Whether answers carry `x-penstock-*` headers with queue time, compute time and batch size.
    pub timing_headers: bool,
    /// Whether models' numbers are shown under Triton's metric names too.
    pub triton_metrics: bool,
    /// Whether NaN and infinities become `null` in JSON answers.
    pub strict_json: bool,
    /// Whether infer answers are compressed for clients that ask for it.
    pub compress_answers: bool,
    /// Whether `/openapi.json` and `/docs` are served.
    pub docs: bool,
    /// Who sees how models batch, and may change it.
    pub batching_debug: BatchingDebug,
    /// How requests are logged.
    pub access_log: AccessLog,
    /// What else is logged, until that is changed.
    pub log_level: LogLevel,
    /// The `name` of the server's metadata.
    pub server_name: String,
    /// The `version` of the server's metadata.
    pub server_version: String,
    /// Whether gRPC tells tools of its services and messages.
    pub reflection: bool,
    /// How gRPC's answers are compressed for clients that accept it.
    pub grpc_compression: Option<Compression>,
    /// Which headers of REST requests become parameters.
    pub http_forward: Option<HeaderPattern>,
    /// Which metadata of gRPC calls becomes parameters.
    pub grpc_forward: Option<HeaderPattern>,
    /// What requests must carry.
    pub access: Access,
    /// The longest that any request may take; `None` leaves it to the client.
    pub request_timeout: Option<Duration>,
    /// Whether inference requests may be CloudEvents, and how they are answered.
    pub cloud_events: Option<CloudEvents>,
    /// The routes of the platforms that host this server.
    pub platforms: Option<Platforms>,
    /// Where clients' wishes to load and unload models go; `None` refuses them.
    pub control: Option<Control>,
    /// Where answers are shared with other servers.
    pub shared_cache: Option<SharedCache>,
    /// Who may register shared memory.
    pub shared_memory: SharedMemory,
    /// Where spans go, and of which requests; `None` for none.
    pub tracing: Option<Tracing>,
}

/// How a CloudEvent is answered.
#[derive(Clone, Debug, Default)]
pub struct CloudEvents {
    /// Whether the answer keeps the request's attributes that it does not set itself.
    pub merge: bool,
    /// The answer's `source`; `None` for `io.kserve.inference.{model}`.
    pub source: Option<String>,
    /// The answer's `type`; `None` for `io.kserve.inference.response`.
    pub kind: Option<String>,
}

/// What the platforms that host this server call.
#[derive(Clone, Debug)]
pub struct Platforms {
    /// Their routes.
    pub routes: Vec<PlatformRoutes>,
    /// The model that they call; `None` for the only one.
    pub model: Option<String>,
}

/// The paths that one platform calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformRoutes {
    /// GET: 200 when the model takes requests.
    pub health: String,
    /// POST: predictions.
    pub predict: String,
}

impl Config {
    /// The kind that an error of this kind is answered as.
    pub(crate) fn answered_as(&self, kind: Kind) -> Kind {
        if kind == Kind::Timeout && self.timeout_unavailable { Kind::Unavailable } else { kind }
    }
}

/// A socket and the protocols that it speaks. With both, one port serves REST and gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its address.
    pub address: Address,
    /// Whether REST is served.
    pub rest: bool,
    /// Whether gRPC is served.
    pub grpc: bool,
    /// Whether `/metrics` is served where REST is not, to everybody who connects.
    pub metrics: bool,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address; port 0 picks a free one.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl Address {
    /// Whether only this machine's own programs reach it.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What a client may use up. Each limit has an answer by status, named in `docs/limits.md`.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of one request's body or message.
    pub body_bytes: usize,
    /// Bytes that a compressed body may inflate to, for each of its own, once they are more than 1 MiB.
    pub inflate_ratio: usize,
    /// Bytes of all request bodies that are held at once.
    pub inflight_bytes: usize,
    /// Bytes of a request's header names and values together.
    pub header_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Bytes of a request's path and query.
    pub uri_bytes: usize,
    /// From a request's first byte to the end of its headers.
    pub header_timeout: Duration,
    /// Between two pieces of a request's body.
    pub body_timeout: Duration,
    /// Bytes a second of a request's body, on the whole, after a time of grace; 0 is no limit.
    pub body_rate: u64,
    /// A connection without a request.
    pub idle_timeout: Duration,
    /// No byte taken of answers that wait for their client.
    pub write_timeout: Duration,
    /// Open connections.
    pub connections: usize,
    /// Nesting of a JSON body.
    pub json_depth: usize,
    /// Requests at once on one HTTP/2 connection.
    pub http2_streams: u32,
    /// Bytes that a client may send ahead on one HTTP/2 stream; four times that on a connection.
    pub http2_window: u32,
}

impl Limits {
    /// How large a compressed body may become.
    pub(crate) fn inflation(&self) -> InflateLimits {
        InflateLimits { bytes: self.body_bytes, ratio: self.inflate_ratio }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            inflate_ratio: 100,
            inflight_bytes: 1 << 30,
            header_bytes: 64 << 10,
            headers: 100,
            uri_bytes: 8 << 10,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            body_rate: 240,
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            connections: 16_384,
            json_depth: 64,
            http2_streams: 1024,
            http2_window: 8 << 20,
        }
    }
}

/// Who may register shared memory, and use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMemory {
    /// Nobody.
    Off,
    /// Who comes over a loopback address or a Unix socket.
    Local,
    /// Everybody.
    On,
}

/// How requests are logged, one line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Not at all.
    Off,
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// How much is logged of what happens to the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Its own failures.
    Error,
    /// And what should not happen.
    Warning,
    /// And what does.
    Info,
}

impl LogLevel {
    /// Its name in settings and lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Off, Self::Error, Self::Warning, Self::Info].into_iter().find(|level| level.name() == name)
    }
}

/// How a message is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As by gzip.
    Gzip,
    /// As by zlib.
    Deflate,
    /// As by zstd.
    Zstd,
}

impl Compression {
    /// Its name in headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Deflate, Self::Zstd].into_iter().find(|known| known.name() == name)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            allowed_hosts: Vec::new(),
            io_threads: 0,
            limits: Limits::default(),
            overload_unavailable: false,
            timeout_unavailable: false,
            timing_headers: false,
            triton_metrics: false,
            strict_json: false,
            compress_answers: false,
            docs: true,
            batching_debug: BatchingDebug::Off,
            access_log: AccessLog::Off,
            log_level: LogLevel::Warning,
            server_name: "penstock".to_owned(),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            reflection: true,
            grpc_compression: None,
            http_forward: None,
            grpc_forward: None,
            access: Access::default(),
            request_timeout: None,
            cloud_events: None,
            platforms: None,
            control: None,
            shared_cache: None,
            shared_memory: SharedMemory::Off,
            tracing: None,
        }
    }
}
