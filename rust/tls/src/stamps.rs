//! Changes of files, by the result of `stat`.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// State of each file: device, inode, size, and time of change in seconds and nanoseconds. `None` for a file
/// that cannot be read. Links are followed: Kubernetes replaces a link to a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStamps(Vec<Option<[i64; 5]>>);

impl FileStamps {
    /// Reads the states.
    pub fn of<'p>(files: impl IntoIterator<Item = &'p PathBuf>) -> Self {
        Self(files.into_iter().map(|file| stamp(file)).collect())
    }
}

fn stamp(file: &Path) -> Option<[i64; 5]> {
    let found = fs::metadata(file).ok()?;
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Some([number(found.dev()), number(found.ino()), number(found.size()), found.mtime(), found.mtime_nsec()])
}
