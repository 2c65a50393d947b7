//! Handlers of all routes but inference.

pub(crate) mod batching;
pub(crate) mod docs;
pub(crate) mod models;
pub(crate) mod repository;
pub(crate) mod server;
pub(crate) mod settings;
pub(crate) mod shared_memory;
pub(crate) mod statistics;
