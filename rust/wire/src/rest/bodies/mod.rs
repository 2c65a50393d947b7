//! Infer bodies in the formats that arrays are kept in: npy, npz, msgpack, Arrow and safetensors.
//!
//! Each is checked against the model as JSON is, and with the same words. What has no place in a format
//! comes by the query: [`Extras`].

mod arrow;
mod arrow_answer;
mod codec;
mod elements;
mod extras;
mod format;
mod item;
mod msgpack;
mod msgpack_answer;
mod npy;
mod npy_answer;
mod npz;
mod place;
mod safetensors;
mod strings;
#[cfg(test)]
mod tests;

pub use codec::{BodyLimits, check_answer, decode, encode};
pub use extras::Extras;
pub use format::Format;
