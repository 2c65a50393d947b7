//! An instance whose handler is `async`: one OS thread that runs an event loop, and a thread beside it
//! that pulls batches and never holds the interpreter.
//!
//! `penstock._runtime.event_loop` drives the loop in Python. It is woken through a socket, takes the [`call::BatchCall`]s
//! that the [`feeder`] left at the [`port::CallQueue`], and runs each as a task of its own. A third thread
//! watches, and tells the log what blocks the loop.

mod batch_call;
mod block_detector;
mod call_queue;
mod feeder;
mod shared;
mod threads;

pub(crate) use batch_call::BatchCall;
pub(crate) use call_queue::{CallEvents, CallQueue};
pub(crate) use threads::spawn;
