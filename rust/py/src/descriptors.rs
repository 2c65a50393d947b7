//! Descriptors that another process has left open in this one.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

/// Duplicates a descriptor by its number. The original stays open.
///
/// # Errors
/// It is not open.
pub(crate) fn duplicate(number: i32) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it is not -1, and only the kernel uses it, in one call that copies it or reports that it is not open. If
    // another thread closes it and opens another file meanwhile, that file is copied; nothing is closed here.
    unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()
}
