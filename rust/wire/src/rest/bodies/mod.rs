//! Infer bodies in the formats that arrays are kept in: npy, npz, msgpack, Arrow and safetensors.
//!
//! Each is checked against the model as JSON is, and with the same words. What has no place in a format
//! comes by the query: [`RequestOptions`].

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
