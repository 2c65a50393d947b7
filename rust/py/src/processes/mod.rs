//! Instances that are processes: how the server's side starts or meets them, and what runs inside of one.

mod answer;
mod attaching;
mod spawning;
mod start;
mod worker;

pub(crate) use attaching::{Channel, Door, Line};
pub(crate) use spawning::{Declared, Processes};
pub(crate) use start::spawn;
pub(crate) use worker::Worker;
