//! Listening sockets that another process has opened: systemd, or a server that this one replaces.

use super::listener::Address;
use std::{io, os::fd::OwnedFd};

/// Duplicates a descriptor of this process by its number. Needs code that is not safe, which this crate has none of.
pub type DuplicateDescriptor = fn(i32) -> io::Result<OwnedFd>;

/// Listening sockets that another process has opened. They accept once the server is ready: until then, connections
/// wait in their queues.
#[derive(Clone, Debug)]
pub struct Inherited {
    /// Opens the sockets of [`Address::Descriptor`].
    pub duplicate: DuplicateDescriptor,
    /// Sockets of a server that this one replaces: address in its configuration, and descriptor. A listener with
    /// that address takes its socket in place of a new one.
    pub handed_over: Vec<(Address, i32)>,
}

impl Default for Inherited {
    fn default() -> Self {
        Self { duplicate: |_| Err(io::ErrorKind::Unsupported.into()), handed_over: Vec::new() }
    }
}
