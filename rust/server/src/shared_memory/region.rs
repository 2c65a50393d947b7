//! One region: a range of an open shared memory object.

use super::key::object_name;
use penstock_core::{AlignedBuffer, Error, Result, aligned_zeroed};
use penstock_wire::{RegionSlice, rest::shared_memory::Region as Described};
use std::{fs::File, os::unix::fs::FileExt as _};

/// A registered region. Its object stays open while requests hold it, even after it is unregistered.
#[derive(Debug)]
pub(crate) struct Region {
    pub(super) described: Described,
    object: File,
}

impl Region {
    /// Opens the object of a description.
    ///
    /// # Errors
    /// `InvalidInput` for a key that cannot be opened, and for a range outside its object.
    pub(super) fn open(described: Described) -> Result<Self> {
        let Described { name, key, offset, byte_size } = &described;
        let object = open(object_name(key)?).ok_or_else(|| {
            // The reason is withheld: a client could probe for other programs' objects.
            Error::invalid(format!("shared memory key {key:?} cannot be opened for reading and writing"))
        })?;
        let size = size_of(&object).ok_or_else(|| lost(name))?;
        let fits = offset.checked_add(*byte_size).is_some_and(|end| end <= size);
        if !fits || *byte_size == 0 {
            return Err(Error::invalid(format!(
                "shared memory region '{name}' takes {byte_size} bytes from byte {offset} on, expected 1 or more bytes \
                 within the {size} of its object"
            )));
        }
        Ok(Self { described, object })
    }

    /// Checks that a span lies in the region, and that the region still lies in its object.
    ///
    /// # Errors
    /// `InvalidInput` if one of them does not.
    pub(crate) fn check(&self, span: &RegionSlice) -> Result<()> {
        let Described { name, offset, byte_size, .. } = &self.described;
        let end = span.offset.checked_add(span.size as u64);
        if end.is_none_or(|end| end > *byte_size) {
            return Err(Error::invalid(format!(
                "{} bytes from byte {} on are not within the {byte_size} of shared memory region '{name}'",
                span.size, span.offset
            )));
        }
        // The sum does not overflow: the object had that size at registration.
        if size_of(&self.object).is_none_or(|size| size < offset + byte_size) {
            return Err(lost(name));
        }
        Ok(())
    }

    /// Reads the bytes of a checked span.
    ///
    /// # Errors
    /// `InvalidInput` if the object has become smaller since.
    pub(crate) fn read(&self, span: &RegionSlice) -> Result<AlignedBuffer> {
        let mut bytes = aligned_zeroed(span.size);
        let read = self.object.read_exact_at(&mut bytes, self.described.offset + span.offset);
        read.map(|()| bytes).map_err(|_| lost(&self.described.name))
    }

    /// Writes to the start of a checked span that is not shorter than `bytes`.
    ///
    /// # Errors
    /// `InvalidInput` if the object has shrunk.
    pub(crate) fn write(&self, span: &RegionSlice, bytes: &[u8]) -> Result<()> {
        // A write beyond the end would grow the object again.
        self.check(span)?;
        let written = self.object.write_all_at(bytes, self.described.offset + span.offset);
        written.map_err(|_| lost(&self.described.name))
    }
}

fn lost(name: &str) -> Error {
    Error::invalid(format!("the object of shared memory region '{name}' is smaller than when it was registered"))
}

fn size_of(object: &File) -> Option<u64> {
    object.metadata().ok().map(|found| found.len())
}

/// Directory of Linux's shared memory objects.
#[cfg(target_os = "linux")]
const FOLDER: &str = "/dev/shm";

/// Opens an object by name: a regular file, as `shm_open` creates it. Links are not followed.
#[cfg(target_os = "linux")]
fn open(name: &str) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let object = rustix::fs::open(format!("{FOLDER}/{name}"), flags, Mode::empty()).ok().map(File::from)?;
    object.metadata().is_ok_and(|found| found.is_file()).then_some(object)
}

/// Refuses every object: other systems can only map them.
#[cfg(not(target_os = "linux"))]
fn open(_: &str) -> Option<File> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A shared memory object of 64 counted bytes.
    struct Object(String, File);

    impl Object {
        fn new(label: &str) -> Self {
            let name = format!("penstock-test-{label}-{}", std::process::id());
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            let file = options.open(format!("{FOLDER}/{name}")).unwrap();
            file.write_all_at(&(0..64).collect::<Vec<u8>>(), 0).unwrap();
            Self(name, file)
        }

        fn region(&self, offset: u64, byte_size: u64) -> Result<Region> {
            Region::open(Described { name: "r".to_owned(), key: format!("/{}", self.0), offset, byte_size })
        }
    }

    impl Drop for Object {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(format!("{FOLDER}/{}", self.0));
        }
    }

    fn span(offset: u64, size: usize) -> RegionSlice {
        RegionSlice { region: "r".to_owned(), offset, size }
    }

    fn text<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().message().to_owned()
    }

    #[test]
    fn spans_are_read_and_written_at_their_offset() {
        let object = Object::new("spans");
        let region = object.region(8, 32).unwrap();
        region.check(&span(4, 3)).unwrap();
        assert_eq!(region.read(&span(4, 3)).unwrap().as_slice(), [12, 13, 14]);
        region.write(&span(30, 2), &[99]).unwrap();
        assert_eq!(region.read(&span(29, 3)).unwrap().as_slice(), [37, 99, 39]);
        assert_eq!(size_of(&object.1), Some(64));
    }

    #[test]
    fn range_outside_the_object_is_refused() {
        let object = Object::new("ranges");
        for (offset, size) in [(0, 65), (64, 1), (u64::MAX, 2), (2, u64::MAX), (0, 0)] {
            let expected = format!(
                "shared memory region 'r' takes {size} bytes from byte {offset} on, expected 1 or more bytes within the 64 of \
                 its object"
            );
            assert_eq!(text(object.region(offset, size)), expected);
        }
        let none = Described { name: "r".to_owned(), key: "/penstock-none".to_owned(), offset: 0, byte_size: 1 };
        let expected = "shared memory key \"/penstock-none\" cannot be opened for reading and writing";
        assert_eq!(text(Region::open(none)), expected);
    }

    #[test]
    fn shrunken_object_fails_only_its_requests() {
        let object = Object::new("shrinks");
        let region = object.region(0, 64).unwrap();
        object.1.set_len(16).unwrap();
        let expected = "the object of shared memory region 'r' is smaller than when it was registered";
        assert_eq!(text(region.check(&span(0, 8))), expected);
        assert_eq!(text(region.read(&span(8, 16))), expected);
        assert_eq!(text(region.write(&span(60, 4), &[1; 4])), expected);
        assert_eq!(size_of(&object.1), Some(16), "a write does not make it larger");
    }

    #[test]
    fn links_and_folders_are_refused() {
        let name = format!("penstock-test-link-{}", std::process::id());
        let path = format!("{FOLDER}/{name}");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(open(&name).is_none());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(open(&name).is_none());
        std::fs::remove_dir(&path).unwrap();
    }

    proptest! {
        #[test]
        fn spans_outside_their_region_are_refused(offset in any::<u64>(), near in 0u64..80, size in 0usize..80, huge in any::<usize>()) {
            let object = Object::new("any");
            let region = object.region(8, 48).unwrap();
            for (offset, size) in [(near, size), (offset, size), (near, huge), (offset, huge)] {
                let inside = offset as u128 + size as u128 <= 48;
                prop_assert_eq!(region.check(&span(offset, size)).is_ok(), inside);
            }
        }
    }
}
