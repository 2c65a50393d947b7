//! Destination of the audit log: standard error, or a file that is synchronized after each line.

use super::chain::{ChainEnd, MAX_LINE_BYTES};
use crate::settings::AuditTarget;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Open destination.
#[derive(Debug)]
pub(super) enum Sink {
    Stderr,
    File(AuditFile),
}

/// File of lines.
#[derive(Debug)]
pub(super) struct AuditFile {
    file: File,
    /// Set once this server has locked the file: two writers would break the chain.
    is_locked: bool,
}

impl Sink {
    /// Opens a destination for more lines.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(target: &AuditTarget) -> io::Result<Self> {
        match target {
            AuditTarget::Stderr => Ok(Self::Stderr),
            AuditTarget::File(path) => {
                let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
                Ok(Self::File(AuditFile { file, is_locked: false }))
            }
        }
    }

    /// Reads the end of the chain that a file has; `None` where there are no lines.
    ///
    /// # Errors
    /// The problem of a file that does not end with a line of this log.
    pub(super) fn chain_end(&mut self, path: &Path) -> Result<Option<ChainEnd>, String> {
        let Self::File(AuditFile { file, .. }) = self else { return Ok(None) };
        let failed = |error: io::Error| format!("'{}' cannot be read: {error}", path.display());
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Ok(None);
        }
        let from = metadata.len().saturating_sub(MAX_LINE_BYTES as u64 + 1);
        file.seek(SeekFrom::Start(from)).map_err(failed)?;
        let mut tail = Vec::with_capacity(MAX_LINE_BYTES);
        file.take(MAX_LINE_BYTES as u64 + 1).read_to_end(&mut tail).map_err(failed)?;
        let wrong = || {
            let path = path.display();
            format!("'{path}' does not end with a whole line of an audit log, move it away or remove what is broken")
        };
        let lines = tail.strip_suffix(b"\n").ok_or_else(wrong)?;
        let start = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        if start == 0 && from > 0 {
            return Err(wrong());
        }
        ChainEnd::of(&lines[start..]).map(|(end, _)| Some(end)).ok_or_else(wrong)
    }

    /// Locks a file before its first line. Returns the end of the chain if it has one: another server may have written
    /// since it was opened.
    ///
    /// # Errors
    /// The problem of the file, or that another server has it.
    pub(super) fn lock(&mut self, path: &Path) -> Result<Option<ChainEnd>, String> {
        let Self::File(AuditFile { file, is_locked }) = self else { return Ok(None) };
        if *is_locked || !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Ok(None);
        }
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => format!("'{}' is the audit log of another server that runs", path.display()),
            TryLockError::Error(error) => format!("'{}' cannot be locked: {error}", path.display()),
        })?;
        *is_locked = true;
        self.chain_end(path)
    }

    /// Writes a whole line, or nothing.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(&mut self, line: &str) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().lock().write_all(format!("{line}\n").as_bytes()),
            Self::File(AuditFile { file, .. }) => {
                let before = file.metadata()?;
                if !before.is_file() {
                    return file.write_all(format!("{line}\n").as_bytes());
                }
                let written = file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_data());
                // Part of a line would break the file for those who read it.
                written.inspect_err(|_| drop(file.set_len(before.len())))
            }
        }
    }
}
