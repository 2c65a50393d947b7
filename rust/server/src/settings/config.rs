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
    limits::Limits,
    listener::Listener,
    live::Live,
    liveness::{ReadStacks, StallSettings, no_stacks},
    shared_cache::SharedCache,
    tls::Tls,
    tracing::Tracing,
    web::{TrustedProxies, WebSettings},
};
use penstock_core::Dialect;
use penstock_wire::{self as wire, rest::EncodeOptions};
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
    /// Initial form of the access log.
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
    pub request_timeout: Live<Option<Duration>>,
    /// Time for which a stopping server still serves, but reports that it is not ready.
    pub drain_delay: Live<Duration>,
    /// Time within which responses of one stream leave together; `None` sends each as it comes.
    pub flush_interval: Live<Option<Duration>>,
    /// Time without a byte of an event stream after which a comment is sent; `None` for none.
    pub stream_keepalive: Live<Option<Duration>>,
    /// Time for which an event stream is kept for a client that has lost its connection; `None` for none.
    pub stream_resume: Live<Option<Duration>>,
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
            max_depth: self.limits.max_json_depth.get(),
            // The setting `shared_memory` is checked when a region is used.
            shared_memory: true,
            permissive: self.dialect.is_permissive(),
            ..wire::Limits::DEFAULT
        }
    }

    /// Takes over the settings of another configuration that may change while the server runs, except those of the log.
    pub(crate) fn take_over(&self, other: &Self) {
        self.limits.take_over(&other.limits);
        self.request_timeout.take_over(&other.request_timeout);
        self.drain_delay.take_over(&other.drain_delay);
        self.flush_interval.take_over(&other.flush_interval);
        self.stream_keepalive.take_over(&other.stream_keepalive);
        self.stream_resume.take_over(&other.stream_resume);
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
    pub(super) const ALL: [Self; 5] = [Self::Off, Self::Error, Self::Warning, Self::Info, Self::Debug];

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
        Self::ALL.into_iter().find(|level| level.name() == name)
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
            request_timeout: None.into(),
            drain_delay: Duration::ZERO.into(),
            flush_interval: None.into(),
            stream_keepalive: None.into(),
            stream_resume: None.into(),
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
