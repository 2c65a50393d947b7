//! Error of a file or setting of TLS.

use std::path::Path;

/// A file or setting that cannot be used; the text names the setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {reason}")]
pub struct TlsError {
    setting: &'static str,
    reason: String,
}

impl TlsError {
    pub(crate) fn new(setting: &'static str, reason: impl Into<String>) -> Self {
        Self { setting, reason: reason.into() }
    }

    /// An error about a file.
    pub(crate) fn of_file(setting: &'static str, file: &Path, reason: impl std::fmt::Display) -> Self {
        Self::new(setting, format!("'{}' {reason}", file.display()))
    }
}
