//! Infer bodies in array formats: npy, npz, msgpack, Arrow and safetensors.
//!
//! Each is checked against the model as JSON is, with the same error texts. Options that a format has no place for come
//! in the query: [`RequestOptions`].

mod arrow_decode;
mod arrow_encode;
mod codec;
mod format;
mod msgpack_decode;
mod msgpack_elements;
mod msgpack_encode;
mod msgpack_reader;
mod npy_decode;
mod npy_encode;
mod npz;
mod numpy_strings;
mod request_options;
mod safetensors;
mod tensors;
#[cfg(test)]
mod tests;

pub use codec::{BodyLimits, check_response, decode, encode};
pub use format::Format;
pub use request_options::RequestOptions;
