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
    bounds::{Bounds, Load},
    queue::Queue,
    resources::{ResourceShare, Resources},
    tuning::{Knobs, Note, Report},
};
pub(crate) use self::{
    next::{CutBatch, Next},
    queue::Answered,
    resources::ResourceGuard,
};
