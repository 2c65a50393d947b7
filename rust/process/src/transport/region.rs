//! Shared memory of a server and one of its processes.
//!
//! # Rationale
//! Tensors do not pass through a socket: one side writes them into a region, and the other computes on them, or sends
//! them, in place. A region is an anonymous file of the kernel (memfd) that both sides map. Its descriptor goes over
//! the socket between them, so it has no name that another process could open.
//!
//! # Limitations
//! The other side may write at any time. Bytes of a region are therefore taken as arbitrary values, and bytes that
//! decide anything are copied out first. A region is sealed against shrinking, so that no access can fault; a region
//! without the seal is refused. Linux only.
#![expect(unsafe_code, reason = "this file maps shared memory and reads it")]

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use std::{io, ops::Range, os::fd::OwnedFd, ptr::NonNull, sync::atomic::AtomicU8};

/// The alignment of tensors in a region.
pub(crate) const ALIGNMENT: usize = 64;

/// The smallest region, and the smallest step between sizes.
const MIN_SIZE: usize = 64 << 10;

/// A mapped region.
#[derive(Debug)]
pub(crate) struct Region {
    address: NonNull<u8>,
    len: usize,
    writable: bool,
}

// SAFETY: a region owns its mapping, which belongs to the process and not to a thread.
unsafe impl Send for Region {}
// SAFETY: a shared region is only read. Its flags are atomic, and the documentation of `pointer` limits the use of
// its result.
unsafe impl Sync for Region {}

/// Rounds an offset up to the alignment of tensors.
pub(crate) fn aligned(offset: usize) -> usize {
    offset.next_multiple_of(ALIGNMENT)
}

/// The size of a region for `len` bytes, with some room for a larger next batch.
fn rounded(len: usize) -> usize {
    let step = (len.next_power_of_two() / 8).max(MIN_SIZE);
    len.max(1).next_multiple_of(step)
}

impl Region {
    /// Creates a region of at least `len` bytes to write to. Returns also its descriptor for the other side.
    pub(crate) fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let len = rounded(len);
        let file = memfd_create("penstock", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&file, len, true)?, file))
    }

    /// Maps a region that the other side created. The descriptor may be closed afterwards.
    ///
    /// # Errors
    /// The file is not a memfd, is not sealed against shrinking, or cannot be mapped.
    pub(crate) fn adopt(file: &OwnedFd, writable: bool) -> io::Result<Self> {
        if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("a shared region is not sealed"));
        }
        // The file is sealed, so this size stays valid.
        let len = usize::try_from(fstat(file)?.st_size).map_err(io::Error::other)?;
        Self::map(file, len, writable)
    }

    fn map(file: &OwnedFd, len: usize, writable: bool) -> io::Result<Self> {
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses the address, so no other mapping is touched.
        let address =
            unsafe { mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED | MapFlags::POPULATE, file, 0) }?;
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { address, len, writable })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes in `range`; `None` beyond the end.
    pub(crate) fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.len)?;
        // SAFETY: the range is within the mapping, which lives as long as `self`, is sealed against shrinking and so
        // readable to its end. The other side may write to it meanwhile: any byte is a valid `u8`, and no caller
        // relies on reading one twice with the same result.
        Some(unsafe { std::slice::from_raw_parts(self.address.as_ptr().add(range.start), len) })
    }

    /// A copy of the bytes in `range`, which the other side cannot change; `None` beyond the end.
    pub(crate) fn copied(&self, range: Range<usize>) -> Option<Vec<u8>> {
        self.bytes(range).map(<[u8]>::to_vec)
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Panics
    /// They do not fit, or the region is mapped for reading: errors of this crate.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(self.writable, "a read-only region");
        assert!(offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len), "beyond the end of a region");
        // SAFETY: the destination is within a writable mapping that only `self` uses on this side, and `bytes` are
        // elsewhere: no reference into the region outlives the borrow of `self`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address.as_ptr().add(offset), bytes.len()) }
    }

    /// A byte that both sides access while a batch is computed; `None` beyond the end.
    pub(crate) fn flag(&self, offset: usize) -> Option<&AtomicU8> {
        // SAFETY: the byte is within a writable mapping that lives as long as the reference, and both sides access
        // it only through atomics while a batch is computed.
        (self.writable && offset < self.len).then(|| unsafe { AtomicU8::from_ptr(self.address.as_ptr().add(offset)) })
    }

    /// A pointer to the bytes from `offset` on. The caller must own them: on this side no reference to these bytes
    /// may be in use while they are written.
    pub(crate) fn pointer(&self, offset: usize) -> *mut u8 {
        assert!(self.writable && offset <= self.len, "beyond the end of a region");
        // SAFETY: within the mapping, or one past its end.
        unsafe { self.address.as_ptr().add(offset) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to `self`, and no reference to it is left. Unmapping a whole mapping does not
        // fail.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;
    use std::sync::atomic::Ordering;

    #[test]
    fn writes_to_a_region_are_visible_to_its_peer() {
        let (mut mine, file) = Region::create(100_000).unwrap();
        let theirs = Region::adopt(&file, true).unwrap();
        assert!(mine.len() >= 100_000 && mine.len() == theirs.len());
        mine.write(64, b"tensor");
        assert_eq!(theirs.bytes(64..70).unwrap(), b"tensor");
        theirs.flag(9).unwrap().store(1, Ordering::Release);
        assert_eq!(mine.copied(8..10).unwrap(), [0, 1]);
        assert_eq!(theirs.pointer(64) as usize % ALIGNMENT, 0);
    }

    #[test]
    fn ranges_beyond_the_region_are_refused() {
        let (region, file) = Region::create(1).unwrap();
        let len = region.len();
        assert!(region.bytes(len..len).is_some());
        for range in [0..len + 1, len..len + 1, usize::MAX..usize::MAX] {
            assert!(region.bytes(range).is_none());
        }
        #[expect(clippy::reversed_empty_ranges, reason = "a frame may claim it")]
        let reversed = region.bytes(5..4);
        assert!(reversed.is_none() && region.flag(len).is_none());
        assert!(Region::adopt(&file, false).unwrap().flag(0).is_none(), "the region is read-only");
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn write_beyond_the_region_panics() {
        let (mut region, _) = Region::create(1).unwrap();
        region.write(region.len() - 1, b"ab");
    }

    #[test]
    fn region_cannot_shrink_and_unsealed_files_are_refused() {
        let (_region, file) = Region::create(1).unwrap();
        assert!(ftruncate(&file, 1).is_err());
        let loose = memfd_create("loose", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&loose, 4096).unwrap();
        assert!(Region::adopt(&loose, false).is_err());
        let plain = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Region::adopt(&plain.into(), false).is_err());
    }
}
