//! Shared code of the load generator and the bare servers.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod raw;
