//! Transport: fixed-size frames over a Unix socket, and shared memory for everything of variable size.

pub(crate) mod control_channel;
pub(crate) mod frame;
pub(crate) mod listener;
pub(crate) mod region;
pub(crate) mod socket;
