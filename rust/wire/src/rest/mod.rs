//! The REST protocol: JSON, and raw tensors after it.

mod accept;
pub mod batching;
pub mod bodies;
mod client_request;
mod client_response;
pub mod cloud_event;
pub mod config;
mod decode;
mod encode;
pub mod error;
mod events;
pub mod generate;
pub mod generation;
pub mod metadata;
mod parameters;
pub mod plain;
mod prometheus_text;
pub mod repository;
mod request_input;
mod request_json;
#[cfg(test)]
mod round_trip;
pub mod shared_memory;
mod statistics;
#[cfg(test)]
pub(crate) mod testing;
mod triton_metrics;
pub mod v1;
mod values;

pub use crate::Limits;
pub use accept::media_ranges;
pub use client_request::encode_request;
pub use client_response::{ResponseDecoder, begin_response};
pub use decode::{Decoder, begin, begin_raw};
pub use encode::{EncodeOptions, Encoded, encode};
pub use events::EventDecoder;
pub use prometheus_text::to_prometheus_text;
pub use statistics::statistics;
pub use triton_metrics::triton_metrics;
