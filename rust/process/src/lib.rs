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

mod await_reply;
mod care;
mod door;
mod end;
mod exchange;
mod fleet;
mod frame;
mod instance;
mod kept;
mod launch;
mod line;
mod lines;
mod open;
mod outputs;
mod pack;
mod partner;
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

pub use door::Door;
pub use end::Failure;
pub use fleet::Fleet;
pub use instance::Instance;
pub use launch::{Attached, Launch, Limits, Source};
pub use line::{Channel, Heard, Line};
pub use request::Batch;
pub use worker::{Asked, Worker};
