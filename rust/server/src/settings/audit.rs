//! Destination of the audit log.

use std::path::{Path, PathBuf};

/// Destination of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// Standard error.
    Stderr,
    /// A file, which is created if there is none.
    File(PathBuf),
}

impl AuditTarget {
    /// Returns the path of a file; empty for standard error.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Stderr => Path::new(""),
            Self::File(path) => path,
        }
    }
}
