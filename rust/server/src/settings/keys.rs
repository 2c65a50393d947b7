//! Keys of clients.

use std::{fmt, path::PathBuf};

/// Sources of the keys that requests must carry.
#[derive(Clone)]
pub struct KeySettings {
    /// TOML file of keys.
    pub file: Option<PathBuf>,
    /// A further key with all scopes, whose name is `api_key`.
    pub api_key: Option<String>,
}

impl fmt::Debug for KeySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySettings").field("file", &self.file).field("has_api_key", &self.api_key.is_some()).finish()
    }
}
