//! Instances that are processes: the server's thread of one, and the code that runs inside it.

mod respond;
mod spawn;
mod worker;

pub(crate) use spawn::spawn;
pub(crate) use worker::Worker;
