//! Addresses of a server, for Python.

/// The addresses of a started server, as text.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    pub(super) http: Option<String>,
    pub(super) grpc: Option<String>,
    pub(super) metrics: Option<String>,
    pub(super) admin: Option<String>,
    /// Addresses as configured, with descriptors.
    pub(super) sockets: Vec<(String, i32)>,
}
