//! The settings as operators see them.

use bytes::Bytes;

/// Settings with their origins, without secrets.
#[derive(Clone, Debug)]
pub struct ConfigDescription {
    /// JSON for `/debug/config`.
    pub json: Bytes,
    /// Hash of the values; empty where it is not known.
    pub hash: String,
}

impl Default for ConfigDescription {
    /// No settings: those of a server without an interpreter have no origins.
    fn default() -> Self {
        Self { json: Bytes::from_static(b"{\"file\":null,\"settings\":{},\"models\":[]}"), hash: String::new() }
    }
}
