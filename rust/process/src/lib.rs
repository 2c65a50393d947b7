//! Instances that are processes. No Python here: what a process runs is for whoever starts it to say.
//!
//! Both ends of the socket between a server and one of its processes are in this crate:
//!
//! - the server's: [`Instance`] pulls batches from the model's queue, and sees to it that there is a
//!   process to compute them (`process`: one of them; `fleet`: all of a model);
//! - the process's own: [`Worker`] takes batches and answers them.
//!
//! A process may also come by itself, with models that it [attaches](Line) at a [`Door`]; its threads are
//! workers then, and an instance's process is never started again.
//!
//! Between them go fixed frames (`frame`, `socket`); what varies in size lies in shared memory
//! (`region`), as `pack`, `request` and `reply` write it. Nothing that a process writes is trusted.
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
