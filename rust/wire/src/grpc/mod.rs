//! The gRPC protocol: messages to core types and back, status codes, deadlines, metadata.
//!
//! A request arrives in chunks. A [`MessageDecoder`] copies tensors straight to the buffers that Python reads.
//! [`decode`] checks the message against the model; [`encode_framed`] encodes the response.

mod client_request;
mod client_response;
mod config;
mod contents;
mod decode;
mod encode;
pub mod error;
mod field_limits;
mod message_types;
pub mod metadata;
mod parameters;
mod protobuf;
pub mod repository;
mod request_decoder;
mod splitter;
mod statistics;
#[cfg(test)]
pub(crate) mod testing;
mod timeout;

pub use client_request::encode_request;
pub use client_response::{ResponseDecoder, decode_stream_response};
pub use config::config;
pub use decode::decode;
pub use encode::{
    FINAL_RESPONSE, FRAME_PREFIX, MAX_MESSAGE, encode, encode_framed, prefix, put_framed, put_stream_response, response,
};
pub use field_limits::check_fields;
pub use message_types::{RequestMessage, TensorMessage};
pub use request_decoder::{Envelope, MessageDecoder};
#[cfg(test)]
pub(crate) use statistics::entry as statistics_entry;
pub use statistics::statistics;
pub use timeout::{TIMEOUT_HEADER, timeout};
