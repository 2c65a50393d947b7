//! Settings of the server as plain values, one file per part. Nothing here reads a file or the
//! environment.

mod access;
mod access_log;
mod audit;
mod category;
mod config;
mod control;
mod description;
mod header_pattern;
pub(crate) mod host_names;
mod inherited;
mod keys;
mod limits;
mod listener;
mod live;
mod liveness;
pub(crate) mod network;
mod shared_cache;
mod tls;
mod tracing;
mod web;

pub use access::Access;
pub(crate) use access::Requirement;
pub use access_log::{AccessField, AccessLog};
pub use audit::AuditTarget;
pub use category::{Categories, Category};
pub use config::{
    Build, CloudEvents, Compression, Config, LiveAccess, LogLevel, PlatformRoutes, Platforms, SharedMemory,
};
pub use control::{Action, BatchingDebug, Command, Control};
pub use description::ConfigDescription;
pub use header_pattern::HeaderPattern;
pub use inherited::{DuplicateDescriptor, Inherited};
pub use keys::KeySettings;
pub use limits::Limits;
pub use listener::{Address, Listener, Serves};
pub use live::{Live, Word};
pub use liveness::{InterpreterProbe, ReadStacks, StallSettings};
pub use shared_cache::SharedCache;
pub use tls::Tls;
pub use tracing::Tracing;
pub(crate) use web::ANY_ORIGIN;
pub use web::{TrustedProxies, WebSettings};
