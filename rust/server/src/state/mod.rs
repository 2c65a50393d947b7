//! State that all threads and protocols of a server share.

mod app;
mod audited;
mod context;
mod exposition;
mod memory_group;
mod memory_use;
mod remote_cache;
mod request_guard;
mod visible_models;

pub(crate) use app::{App, AppError, Phase};
pub(crate) use context::Context;
pub use memory_group::default_max_inflight_bytes;
pub(crate) use remote_cache::RemoteCache;
pub(crate) use request_guard::{RequestGuard, RequestMemory, ResponseClock, ResponseMemory};
