//! gRPC over HTTP/2: framing, statuses, and whose thread drives a connection.

mod admin;
pub(crate) mod call;
pub(crate) mod connection;
mod metadata;
pub(crate) mod response;
