//! Bodies of event streams: comments while they are silent, and resumption.

mod driver;
mod reader;
mod respond;
mod resume;

pub(crate) use respond::{EventsRequest, is_event_stream, respond, set_headers};
pub(crate) use resume::{cancel, find, path_of, resume};
