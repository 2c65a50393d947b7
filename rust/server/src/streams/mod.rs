//! Event streams that outlive their connection, so that a client can resume them.

mod event_id;
mod event_splitter;
mod owner;
mod ring;
mod stream;
mod table;

pub(crate) use event_id::{EventId, Token};
pub(crate) use event_splitter::EventSplitter;
pub(crate) use owner::Owner;
pub(crate) use stream::{Attachment, Ending, NextStep, ResumableStream, StreamPlace, unknown_stream};
pub(crate) use table::StreamTable;
