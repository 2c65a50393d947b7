//! The control group of the process that limits its memory: cgroup v2, and the memory controller of v1.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A larger limit is none: v1 has the largest multiple of the page size.
const NO_LIMIT: u64 = 1 << 60;

/// Largest default of `max_inflight_bytes`, and its share of the memory limit.
const MAX_INFLIGHT_BYTES: u64 = 1 << 30;
const INFLIGHT_SHARE: u64 = 4;

/// The names of the files of one version.
#[derive(Debug)]
struct Files {
    limit: &'static str,
    used: &'static str,
    /// Line of `memory.stat` with the bytes of files that can be dropped.
    inactive: &'static str,
}

const V1: Files =
    Files { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", inactive: "total_inactive_file " };
const V2: Files = Files { limit: "memory.max", used: "memory.current", inactive: "inactive_file " };

/// A control group with a memory limit.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
    files: &'static Files,
    limit: u64,
}

impl MemoryGroup {
    /// The group with the lowest limit among that of the process and those above it; `None` without a limit.
    pub(crate) fn of_process() -> Option<Self> {
        Self::find(&fs::read_to_string("/proc/self/cgroup").ok()?, Path::new("/sys/fs/cgroup"))
    }

    /// As [`MemoryGroup::of_process`], by the groups of a process as /proc has them, and the folder of all groups.
    fn find(groups: &str, root: &Path) -> Option<Self> {
        let found = groups.lines().filter_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let (root, files) = match controllers {
                "" => (root.to_owned(), &V2),
                _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), &V1),
                _ => return None,
            };
            Self::lowest(&root, path.trim_start_matches('/'), files)
        });
        found.min_by_key(|group| group.limit)
    }

    /// In a container the path may be that of the host: then only the folder of all groups exists.
    fn lowest(root: &Path, path: &str, files: &'static Files) -> Option<Self> {
        let own = root.join(path);
        let folders = own.ancestors().take_while(|folder| folder.starts_with(root));
        let limited = folders.filter_map(|folder| {
            let limit = number(&folder.join(files.limit)).filter(|limit| *limit < NO_LIMIT)?;
            Some(Self { folder: folder.to_owned(), files, limit })
        });
        limited.min_by_key(|group| group.limit)
    }

    /// Its limit in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that it uses and cannot drop, as Kubernetes counts them; `None` if they cannot be read.
    pub(crate) fn used(&self) -> Option<u64> {
        let used = number(&self.folder.join(self.files.used))?;
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let inactive = stat.lines().find_map(|line| line.strip_prefix(self.files.inactive)?.parse::<u64>().ok());
        Some(used.saturating_sub(inactive.unwrap_or_default()))
    }
}

fn number(file: &Path) -> Option<u64> {
    // `max` is no limit.
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The default of `max_inflight_bytes`: 1 GiB, or a quarter of the process's memory limit if that is less.
pub fn default_max_inflight_bytes() -> usize {
    let share = MemoryGroup::of_process().map_or(MAX_INFLIGHT_BYTES, |group| group.limit / INFLIGHT_SHARE);
    usize::try_from(share.clamp(1, MAX_INFLIGHT_BYTES)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the files of a tree of groups.
    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("penstock-memory-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn lowest_limit_above_a_group_applies() {
        let root = tree(
            "v2",
            &[
                ("pod/memory.max", "1000\n"),
                ("pod/memory.current", "900\n"),
                ("pod/memory.stat", "anon 100\ninactive_file 300\n"),
                ("pod/app/memory.max", "max\n"),
                ("pod/large/memory.max", "5000\n"),
            ],
        );
        for path in ["/pod", "/pod/app", "/pod/large", "/pod/gone"] {
            let group = MemoryGroup::find(&format!("0::{path}\n"), &root).unwrap();
            assert_eq!((group.limit(), group.used()), (1000, Some(600)), "{path}");
        }
        assert!(MemoryGroup::find("0::/other\n", &root).is_none());
        assert!(MemoryGroup::find("no group\n1:cpu:/pod\n", &root).is_none());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn memory_controller_of_version_1_is_read() {
        let root = tree(
            "v1",
            &[
                ("memory/memory.limit_in_bytes", "9223372036854771712"),
                ("memory/docker/a/memory.limit_in_bytes", "4096"),
                ("memory/docker/a/memory.usage_in_bytes", "100"),
                ("memory/docker/a/memory.stat", "inactive_file 1\ntotal_inactive_file 20\n"),
            ],
        );
        let groups = |path: &str| format!("9:name=systemd:/\n4:cpu,memory:{path}\n0::{path}\n");
        let group = MemoryGroup::find(&groups("/docker/a"), &root).unwrap();
        assert_eq!((group.limit(), group.used()), (4096, Some(80)));
        assert!(MemoryGroup::find(&groups("/docker/b"), &root).is_none());
        // As in a container, whose groups have the host's path.
        fs::write(root.join("memory/memory.limit_in_bytes"), "8192").unwrap();
        assert_eq!(MemoryGroup::find(&groups("/of/the/host"), &root).unwrap().limit(), 8192);
        fs::remove_dir_all(root).unwrap();
    }
}
