//! Instances that are processes: how the server's side starts them, and what runs inside of one.

mod answer;
mod spawning;
mod start;
mod worker;

pub(crate) use spawning::{Processes, Spawning};
pub(crate) use start::spawn;
pub(crate) use worker::Worker;
