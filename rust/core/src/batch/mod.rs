//! Joining requests into batches: when to cut one ([`policy`]), what batches cost ([`cost`]), how fast the queue drains ([`drain`]), whether
//! answered callers come back ([`returns`]), and how rows are joined and parted ([`gather`]).

pub mod cost;
pub mod drain;
pub mod gather;
pub mod policy;
pub mod returns;
