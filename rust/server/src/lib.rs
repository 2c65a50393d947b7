//! Penstock's server: sockets, limits, routes, drain. No Python.
//!
//! A request passes `net` (sockets, timeouts), `dispatch` (checks, protocol, route), `rest` or `grpc` (receive,
//! decode),
//! `infer` (queue and wait), and is encoded on the way back. Each folder imports only those below it.
#![forbid(unsafe_code)]

mod body;
mod dispatch;
mod grpc;
mod infer;
mod keys;
mod net;
mod observe;
mod rest;
mod settings;
mod shared_memory;
mod state;
mod streams;

pub use infer::sample;
pub use keys::check_keys_file;
pub use net::{InProcess, Server, StartError, processors};
pub use observe::{AuditedFiles, MAX_NAME_BYTES, plain, verify_audit_log};
pub use penstock_tls::{CertificateFiles, ClientAuth, MinVersion, Outgoing, OutgoingSettings, TlsSettings};
pub use settings::{
    Access, AccessField, AccessLog, Action, Address, AuditTarget, BatchingDebug, Build, Categories, Category,
    CloudEvents, Command, Compression, Config, ConfigDescription, Control, DuplicateDescriptor, HeaderPattern,
    Inherited, InterpreterProbe, KeySettings, Limits, Listener, Live, LiveAccess, LogLevel, PlatformRoutes, Platforms,
    ReadStacks, Serves, SharedCache, SharedMemory, StallSettings, Tls, Tracing, TrustedProxies, WebSettings, Word,
};
pub use state::default_max_inflight_bytes;
