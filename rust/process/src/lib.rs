//! Instances that are processes. No Python here: what a process runs is for whoever starts it to say.
//!
//! Both ends of the socket between a server and one of its processes are in this crate:
//!
//! - the server's: [`Instance`] pulls batches from the model's queue, and sees to it that there is a
//!   process to compute them (`process`: one of them; `fleet`: all of a model);
//! - the process's own: [`Worker`] takes batches and answers them.
//!
//! Between them go fixed frames (`frame`, `socket`); what varies in size lies in shared memory
//! (`region`), as `pack`, `request` and `reply` write it. Nothing that a process writes is trusted.
#![deny(unsafe_code)]

mod await_reply;
mod care;
mod end;
mod exchange;
mod fleet;
mod frame;
mod instance;
mod kept;
mod launch;
mod lines;
mod outputs;
mod pack;
mod process;
mod region;
mod reply;
mod request;
mod retire;
mod serving;
mod slots;
mod socket;
mod tensors;
mod worker;

pub use end::Failure;
pub use fleet::Fleet;
pub use instance::Instance;
pub use launch::{Launch, Limits};
pub use request::Batch;
pub use worker::{Asked, Worker};
