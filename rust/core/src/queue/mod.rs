//! The queue of a model: requests wait here until an instance pulls them as batches.

mod bounds;
mod compatible;
mod displace;
mod expiry;
mod instances;
mod join;
mod lane;
mod levels;
mod model_queue;
mod next;
mod pending;
mod requeue;
mod resources;
mod sequences;
mod submit;
mod tuning;
mod turns;
mod warmup;

pub use self::{
    bounds::{Load, QueueLimits},
    instances::{Activity, InstanceKind, InstancePhase, InstanceProcess, InstanceReport, InstanceState},
    model_queue::Queue,
    resources::{ResourceShare, Resources},
    tuning::{BatchRecord, QueueLoad, QueueReport, Tuning},
};
pub(crate) use self::{
    model_queue::Answered,
    next::{CutBatch, Next},
    resources::ResourceGuard,
};
