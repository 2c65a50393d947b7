//! Routes that models declare.

mod chunks;
mod fallback;
pub(crate) mod route;
mod splice;
mod stream;
