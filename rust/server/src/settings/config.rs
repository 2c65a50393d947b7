//! Configuration of a server.

use super::{
    access::Access,
    access_log::{AccessField, AccessLog},
    audit::AuditTarget,
    category::Categories,
    control::{BatchingDebug, Control},
    description::ConfigDescription,
    header_pattern::HeaderPattern,
    inherited::Inherited,
    keys::KeySettings,
    listener::Listener,
    liveness::{ReadStacks, StallSettings, no_stacks},
    shared_cache::SharedCache,
    tls::Tls,
    tracing::Tracing,
    web::{TrustedProxies, WebSettings},
};
use penstock_core::Dialect;
use penstock_wire::{self as wire, coding::InflateLimits, rest::EncodeOptions};
use std::time::Duration;

/// The server's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses to listen on, and the protocols of each.
    pub listeners: Vec<Listener>,
    /// Listening sockets that another process has opened.
    pub inherited: Inherited,
    /// Names, without port, that `Host` may have in addition to local ones; `*` for any.
    pub allowed_hosts: Vec<String>,
    /// Rules for web pages of other origins.
    pub web: WebSettings,
    /// Peers that are believed about their clients.
    pub trusted_proxies: TrustedProxies,
    /// Threads that do I/O, decode and encode; 0 chooses by the number of cores.
    pub io_threads: usize,
    /// Runs the whole work of each I/O thread, with preparations of the caller.
    pub io_thread_scope: fn(Box<dyn FnOnce() + Send>),
    /// Limits on what one client uses.
    pub limits: Limits,
    /// Dialect of statuses and metrics. The registry has that of error texts.
    pub dialect: Dialect,
    /// Adds `x-penstock-*` headers with queue time, compute time and batch size to responses.
    pub timing_headers: bool,
    /// Writes NaN and infinities as `null` in JSON.
    pub strict_json: bool,
    /// Compresses inference responses for clients that accept it.
    pub compress_answers: bool,
    /// Serves `/openapi.json` and `/docs`.
    pub docs: bool,
    /// Clients that may watch the server at `/live`.
    pub live: LiveAccess,
    /// Access of clients to batching reports and knobs.
    pub batching_debug: BatchingDebug,
    /// Form of the access log.
    pub access_log: AccessLog,
    /// Fields of its lines; empty for all of JSON, and for the text line without names.
    pub access_log_fields: Vec<AccessField>,
    /// Share of the successful requests that it has. Failed ones are always logged.
    pub access_log_sample: f64,
    /// Duration from which a request is recorded as slow; `None` records none.
    pub slow_request: Option<Duration>,
    /// Log of control changes and denied access; `None` for none.
    pub audit_log: Option<AuditTarget>,
    /// Initial level of the server log.
    pub log_level: LogLevel,
    /// The `name` of the server's metadata.
    pub server_name: String,
    /// The `version` of the server's metadata.
    pub server_version: String,
    /// Versions in `penstock_build_info`.
    pub build: Build,
    /// Serves gRPC reflection.
    pub grpc_reflection: bool,
    /// Compression of gRPC responses for clients that accept it.
    pub grpc_compression: Option<Compression>,
    /// Pattern of the REST headers that become parameters.
    pub http_header_forward_pattern: Option<HeaderPattern>,
    /// Pattern of the gRPC metadata that becomes parameters.
    pub grpc_header_forward_pattern: Option<HeaderPattern>,
    /// Secrets that requests must carry.
    pub access: Access,
    /// Keys of clients; `None` where none is needed.
    pub keys: Option<KeySettings>,
    /// Categories that only an admin address serves; none without such an address.
    pub admin_only: Categories,
    /// Deadline of every request; `None` leaves it to the client.
    pub request_timeout: Option<Duration>,
    /// Time for which a stopping server still serves, but reports that it is not ready.
    pub drain_delay: Duration,
    /// Time within which responses of one stream leave together; `None` sends each as it comes.
    pub flush_interval: Option<Duration>,
    /// Accepts CloudEvents as inference requests, with these responses.
    pub cloud_events: Option<CloudEvents>,
    /// Routes of the platforms that host this server.
    pub platforms: Option<Platforms>,
    /// Queue of clients' requests to load and unload models; `None` refuses them.
    pub control: Option<Control>,
    /// Response cache that servers share.
    pub shared_cache: Option<SharedCache>,
    /// Clients that may register shared memory.
    pub shared_memory: SharedMemory,
    /// Export of spans; `None` for none.
    pub tracing: Option<Tracing>,
    /// TLS of the TCP addresses; `None` for none.
    pub tls: Option<Tls>,
    /// Watch over the progress of work.
    pub stalls: StallSettings,
    /// Reader of the stacks of this process and of its children.
    pub stacks: ReadStacks,
    /// The settings for operators, until they are described again.
    pub description: ConfigDescription,
}

impl Config {
    /// Returns the limits of the decoders.
    pub(crate) fn decode_limits(&self) -> wire::Limits {
        wire::Limits {
            max_depth: self.limits.max_json_depth,
            // The setting `shared_memory` is checked when a region is used.
            shared_memory: true,
            permissive: self.dialect.is_permissive(),
            ..wire::Limits::DEFAULT
        }
    }

    /// Returns the options of the JSON encoders.
    pub(crate) fn encode_options(&self) -> EncodeOptions {
        EncodeOptions { strict_json: self.strict_json }
    }
}

/// Versions of what serves. Without an interpreter, its fields are empty.
#[derive(Clone, Debug)]
pub struct Build {
    /// Penstock.
    pub version: String,
    /// Interpreter.
    pub python: String,
    /// The interpreter's GIL: `on` or `off`.
    pub gil: String,
    /// Compiler.
    pub rustc: String,
}

impl Default for Build {
    fn default() -> Self {
        let (python, gil, rustc) = <(String, String, String)>::default();
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), python, gil, rustc }
    }
}

/// Form of the response to a CloudEvent.
#[derive(Clone, Debug, Default)]
pub struct CloudEvents {
    /// Copies attributes of the request that the response does not set.
    pub merge: bool,
    /// `source` of the response; `None` for `io.kserve.inference.{model}`.
    pub source: Option<String>,
    /// `type` of the response; `None` for `io.kserve.inference.response`.
    pub kind: Option<String>,
}

/// Routes that hosting platforms call.
#[derive(Clone, Debug)]
pub struct Platforms {
    /// Routes of each platform.
    pub routes: Vec<PlatformRoutes>,
    /// Model that they call; `None` for the only one.
    pub model: Option<String>,
}

/// Paths that one platform calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformRoutes {
    /// GET: 200 when the model is ready.
    pub health: String,
    /// POST: predictions.
    pub predict: String,
}

/// Limits on what one client uses. `docs/limits.md` lists the status of each.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of one request's body or message.
    pub max_body_bytes: usize,
    /// Inflated bytes per compressed byte, from 1 MiB on.
    pub max_inflate_ratio: usize,
    /// Bytes of all request bodies in memory at once.
    pub max_inflight_bytes: usize,
    /// Bytes of a request's header names and values together.
    pub max_header_bytes: usize,
    /// Headers of a request.
    pub max_headers: usize,
    /// Bytes of a request's path and query.
    pub uri_bytes: usize,
    /// Time from a request's first byte to the end of its headers.
    pub header_timeout: Duration,
    /// Time between two chunks of a request's body.
    pub body_timeout: Duration,
    /// Minimum average rate of a request's body in bytes per second, after a grace period; 0 for no limit.
    pub min_body_rate: u64,
    /// Time without a request on a connection.
    pub idle_timeout: Duration,
    /// Time in which the client takes no byte of a waiting response.
    pub write_timeout: Duration,
    /// Open connections.
    pub max_connections: usize,
    /// Open connections of one client address, which of IPv6 is its /64 network; 0 for no limit.
    pub max_connections_per_address: usize,
    /// Age of a connection at which its client is asked to open another one, give or take a tenth.
    pub max_connection_age: Duration,
    /// Time that the requests of such a connection have to finish.
    pub max_connection_age_grace: Duration,
    /// Interval of pings on HTTP/2 connections; `None` for none.
    pub http2_keepalive: Option<Duration>,
    /// Time in which the client must acknowledge a ping.
    pub http2_keepalive_timeout: Duration,
    /// Share of the control group's memory limit above which new requests are refused; 0 for no check.
    pub memory_shed: f64,
    /// Levels of nesting in a JSON body.
    pub max_json_depth: usize,
    /// Concurrent requests on one HTTP/2 connection.
    pub http2_streams: u32,
    /// Flow-control window of an HTTP/2 stream in bytes; a connection has four times that.
    pub http2_window: u32,
}

impl Limits {
    /// Returns the bounds on an inflated body.
    pub(crate) fn inflation(&self) -> InflateLimits {
        InflateLimits { bytes: self.max_body_bytes, ratio: self.max_inflate_ratio }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body_bytes: 64 << 20,
            max_inflate_ratio: 100,
            max_inflight_bytes: 1 << 30,
            max_header_bytes: 64 << 10,
            max_headers: 100,
            uri_bytes: 8 << 10,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            min_body_rate: 240,
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            max_connections: 16_384,
            max_connections_per_address: 0,
            max_connection_age: Duration::MAX,
            max_connection_age_grace: Duration::from_secs(30),
            http2_keepalive: None,
            http2_keepalive_timeout: Duration::from_secs(20),
            memory_shed: 0.95,
            max_json_depth: 64,
            http2_streams: 1024,
            http2_window: 8 << 20,
        }
    }
}

/// Clients that may register and use shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMemory {
    /// None.
    Off,
    /// Clients on loopback addresses and Unix sockets.
    Local,
    /// All clients.
    On,
}

/// Clients that may watch the server at `/live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveAccess {
    /// None: there is no such page.
    Off,
    /// Programs of this machine, without a proxy between.
    Local,
    /// All that may read statistics.
    On,
}

/// Level of the server log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures of the server.
    Error,
    /// Errors, and conditions that need attention.
    Warning,
    /// Warnings, and regular events.
    Info,
    /// Events, and requests that are refused through their clients' fault.
    Debug,
}

impl LogLevel {
    /// Returns the name in settings and log lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// Returns the value of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Off, Self::Error, Self::Warning, Self::Info, Self::Debug].into_iter().find(|level| level.name() == name)
    }
}

/// Compression of a gRPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// gzip.
    Gzip,
    /// zlib.
    Deflate,
    /// zstd.
    Zstd,
}

impl Compression {
    /// Returns the name in headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
        }
    }

    /// Returns the value of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Deflate, Self::Zstd].into_iter().find(|known| known.name() == name)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            inherited: Inherited::default(),
            allowed_hosts: Vec::new(),
            web: WebSettings::default(),
            trusted_proxies: TrustedProxies::default(),
            io_threads: 0,
            io_thread_scope: |run| run(),
            limits: Limits::default(),
            dialect: Dialect::default(),
            timing_headers: false,
            strict_json: false,
            compress_answers: false,
            docs: true,
            live: LiveAccess::Local,
            batching_debug: BatchingDebug::Off,
            access_log: AccessLog::Off,
            access_log_fields: Vec::new(),
            access_log_sample: 1.0,
            slow_request: None,
            audit_log: None,
            log_level: LogLevel::Warning,
            server_name: Dialect::default().name().to_owned(),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            build: Build::default(),
            grpc_reflection: true,
            grpc_compression: None,
            http_header_forward_pattern: None,
            grpc_header_forward_pattern: None,
            access: Access::default(),
            keys: None,
            admin_only: Categories::default(),
            request_timeout: None,
            drain_delay: Duration::ZERO,
            flush_interval: None,
            cloud_events: None,
            platforms: None,
            control: None,
            shared_cache: None,
            shared_memory: SharedMemory::Off,
            tracing: None,
            tls: None,
            stalls: StallSettings::default(),
            stacks: no_stacks,
            description: ConfigDescription::default(),
        }
    }
}
