//! Tensors as plain JSON values, without names of datatypes and shapes.

mod column;
mod table;
mod writer;

pub(crate) use column::Column;
pub(crate) use table::Table;
pub(crate) use writer::{Writers, separated};
