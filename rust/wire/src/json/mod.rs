//! Strict JSON: a pull reader, numbers and strings, and tensor elements in both directions.

pub(crate) mod array;
pub(crate) mod element;
pub(crate) mod fault;
pub(crate) mod float;
pub(crate) mod number;
pub(crate) mod reader;
pub(crate) mod string;
pub(crate) mod target;
pub(crate) mod write;
