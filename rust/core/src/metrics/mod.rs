//! Metrics: the server's, each model's, and those that handlers define.

mod histogram;
mod labels;
mod model;
mod sampled_clock;
mod server;
pub mod statistics;
mod user;

pub use self::{
    model::{CacheMetrics, ModelMetrics},
    sampled_clock::SampledClock,
    server::Metrics,
    user::{
        Change, DEFAULT_BUCKETS, Labels, MAX_LABELS, MAX_SERIES, MetricRejected, MetricUpdate, Observations,
        check_increment,
    },
};
