//! Metrics that handlers define: updates, their registry, and the recorder of each model.

mod recorder;
mod registry;
mod update;

pub(in crate::metrics) use self::{recorder::Recorder, registry::UserRegistry};
pub use self::{
    registry::{MAX_SERIES, MetricRejected},
    update::{Change, DEFAULT_BUCKETS, Labels, MAX_LABELS, MetricUpdate, Observations, check_increment},
};
