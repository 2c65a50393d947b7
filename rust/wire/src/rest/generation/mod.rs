//! Generated answers of language models: chunks of a model, and the event streams of each API.
//!
//! A model gives text, or documents with text, reasoning, tool calls and log probabilities. Indexes, ids, finish reasons
//! and the form of events are the API's, and written here.

mod chat;
mod choice;
mod chunk_frame;
mod completion;
mod decoder;
mod delta;
mod events;
mod messages;
mod response_item;
mod responses;
mod stops;
#[cfg(test)]
mod testing;
mod utf8;
mod write;

pub use choice::{Choice, ChunkFormat, Piece, ToolCall};
pub use delta::{TokenLogprob, TopLogprob, Usage};
pub use events::{Api, EventFormat, Events, StreamError};
