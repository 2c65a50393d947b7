//! Handlers of all routes but inference.

pub(crate) mod batching;
pub(crate) mod debug;
pub(crate) mod docs;
pub(crate) mod live;
pub(crate) mod models;
mod page;
mod protected;
pub(crate) mod repository;
pub(crate) mod server;
pub(crate) mod settings;
pub(crate) mod shared_memory;
pub(crate) mod slow;
pub(crate) mod stacks;
pub(crate) mod statistics;
