//! The gRPC side: protobuf messages to core types and back, status codes, deadlines, metadata.
//!
//! A request arrives in chunks that a [`MessageDecoder`] takes as they come: tensors go straight to
//! where Python will read them. [`decode`] checks the whole against the model; [`encode_framed`] makes
//! the bytes of the answer.

mod answer;
mod ask;
mod bounds;
mod config;
mod contents;
mod decode;
mod encode;
pub mod error;
mod fields;
mod message;
mod messages;
pub mod meta;
mod parameters;
pub mod repository;
mod split;
mod statistics;
#[cfg(test)]
pub(crate) mod testing;
mod timeout;
mod varint;

pub use answer::{AnswerDecoder, stream_answer};
pub use ask::encode_call;
pub use bounds::check_fields;
pub use config::config;
pub use decode::decode;
pub use encode::{FRAME_PREFIX, MAX_MESSAGE, encode, encode_framed, prefix, response};
pub use message::{Envelope, MessageDecoder};
pub use messages::{RequestMessage, TensorMessage};
#[cfg(test)]
pub(crate) use statistics::entry as statistics_entry;
pub use statistics::statistics;
pub use timeout::timeout;
