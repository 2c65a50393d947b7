//! An instance whose handler is `async`: one OS thread that runs an event loop, and a thread beside it
//! that pulls batches and never holds the interpreter.
//!
//! `penstock._event_loop` drives the loop in Python. It is woken through a socket, takes the [`call::Call`]s
//! that the [`feeder`] left at the [`port::Port`], and runs each as a task of its own. A third thread
//! watches, and tells the log what blocks the loop.

mod bell;
mod call;
mod feeder;
mod instance;
mod port;
mod shared;
mod watch;

pub(crate) use bell::Bell;
pub(crate) use call::Call;
pub(crate) use instance::spawn;
pub(crate) use port::{News, Port};
