//! What the load generator and the bare servers share.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod raw;
