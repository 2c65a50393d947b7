//! Instances that are processes. No Python: the program of a process is a parameter.
//!
//! Both ends of the socket between a server and one of its processes are in this crate:
//!
//! - the server's: an [`Instance`] pulls batches from the model's queue, and keeps a process alive to compute them
//!   (`supervisor`);
//! - the process's: a [`Worker`] receives batches and responds to them.
//!
//! A process may also connect by itself, to a [`Listener`], and attach models over a [`ControlChannel`]. Its threads
//! are workers then, and the server never starts such a process again.
//!
//! The two ends exchange fixed-size frames (`transport`). Payloads are in shared memory, as `codec` describes them. No
//! byte that a process writes is trusted.
#![deny(unsafe_code)]

mod codec;
mod supervisor;
mod transport;
mod worker;

pub use codec::batch::Batch;
pub use supervisor::{
    exit_reason::LoadFailure,
    instance::Instance,
    launch::{Attached, Launch, Limits, Source},
    pool::ProcessPool,
};
pub use transport::{
    control_channel::{ControlChannel, ControlEvent, InstanceChannel},
    listener::Listener,
};
pub use worker::{Command, Worker};
