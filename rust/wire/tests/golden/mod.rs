//! The golden vectors of `tests/vectors` as Rust values.

mod bodies;
mod files;
mod values;

pub(crate) use files::{ClientResponse, Model, Refusal, Tensor, Vector, Wire, WireKind, models, vectors};
pub(crate) use values::{data_texts, hex, pack, parameters, without_non_finite_words};
