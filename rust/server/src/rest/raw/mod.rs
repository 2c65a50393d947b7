//! Paths of models' own.

mod chunks;
mod fallback;
pub(crate) mod route;
