//! The REST protocol: JSON, and raw tensors after it.

mod answer;
mod ask;
pub mod batching;
pub mod bodies;
pub mod cloud_event;
pub mod config;
mod decode;
mod element;
mod elements;
mod encode;
pub mod error;
mod events;
mod fault;
pub mod generate;
mod head;
mod input;
pub mod meta;
mod output_text;
mod parameters;
mod reader;
pub mod repository;
#[cfg(test)]
mod round_trip;
pub mod shared_memory;
mod statistics;
#[cfg(test)]
pub(crate) mod test_spec;
mod text;
mod triton_metrics;
pub mod v1;

pub use crate::Limits;
pub use answer::{AnswerDecoder, begin_answer};
pub use ask::encode_call;
pub use decode::{Decoder, begin, begin_raw};
pub use encode::{EncodeOptions, Encoded, encode};
pub use events::EventDecoder;
pub use statistics::statistics;
pub use triton_metrics::triton_metrics;
