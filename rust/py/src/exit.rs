//! Process exit without the interpreter.

/// Ends the process at once. Nothing is flushed or destroyed, because other threads may still use it.
pub(crate) fn at_once(status: i32) -> ! {
    // SAFETY: `_exit` may be called at any time, on any thread and with any status, and does not return.
    unsafe { libc::_exit(status) }
}
