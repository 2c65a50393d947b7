//! The return path: one response, or a stream of them.

mod completions;
mod notify;
mod reply;
mod response_future;
mod stream;

pub use self::{
    completions::CompletionQueue,
    notify::InlineExecutor,
    reply::{CancelProbe, RemoteClient, Reply, Ticket, replies, reply},
    response_future::ResponseFuture,
    stream::{ResponseChunk, ResponseStream},
};
pub(crate) use self::{
    completions::Deliveries,
    notify::Notify,
    stream::{Channel, stalled},
};
