//! Batching of requests: when to cut a batch ([`policy`]), cost of a batch ([`cost`]), drain rate of the queue
//! ([`drain`]), returning clients ([`returns`]), latency targets ([`target`]), and joining and splitting of rows
//! ([`gather`]).

pub mod cost;
mod decision;
pub mod drain;
pub mod gather;
mod part;
pub mod policy;
pub(crate) mod ragged;
mod reason;
pub mod returns;
pub mod target;

pub use self::part::Part;
