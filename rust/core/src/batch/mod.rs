//! BatchRules requests into batches: when to cut one ([`policy`]), what batches cost ([`cost`]), how fast the queue drains ([`drain`]), whether
//! answered callers come back ([`returns`]), what a target on the latency asks ([`target`]), and how rows are joined and parted ([`gather`]).

pub mod cost;
pub mod drain;
pub mod gather;
mod part;
pub mod policy;
pub(crate) mod ragged;
mod reason;
pub mod returns;
pub mod target;

pub use self::part::Part;
