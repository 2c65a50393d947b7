//! The queue of a model: requests wait here until an instance pulls them as batches.

mod bounds;
mod compatible;
mod expiry;
mod lane;
mod levels;
mod next;
mod pending;
mod queue;
mod requeue;
mod resources;
mod sequences;
mod submit;
mod tuning;
mod turns;
mod warmup;

pub use self::{
    bounds::{Load, QueueLimits},
    queue::Queue,
    resources::{ResourceShare, Resources},
    tuning::{BatchRecord, QueueReport, Tuning},
};
pub(crate) use self::{
    next::{CutBatch, Next},
    queue::Answered,
    resources::ResourceGuard,
};
