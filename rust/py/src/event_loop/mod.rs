//! Async instances: one OS thread that runs an event loop, and a second thread
//! that pulls batches and never holds the interpreter.
//!
//! `penstock._runtime.event_loop` drives the loop in Python. A socket wakes it. It takes the calls that the `feeder`
//! left in the `call_queue`, and runs each as a task. A third thread detects and logs a blocked loop.

mod batch_call;
mod block_detector;
mod call_queue;
mod feeder;
mod shared;
mod threads;

pub(crate) use batch_call::BatchCall;
pub(crate) use call_queue::{CallEvents, CallQueue};
pub(crate) use threads::spawn;
