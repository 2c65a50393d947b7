//! Metrics: the server's, each model's, and those that handlers define.

mod config;
mod histogram;
mod keys;
mod labels;
mod model;
mod refused;
mod registration;
mod sampled_clock;
mod server;
mod stalls;
pub mod statistics;
mod stream;
mod text;
mod tls;
mod tokens;
mod totals;
mod traced_family;
mod user;

pub use self::{
    config::ConfigMetrics,
    histogram::{Distribution, Histogram},
    keys::{DeniedReason, KeyMetrics},
    model::{CacheMetrics, ModelMetrics},
    refused::RefusedMetrics,
    sampled_clock::SampledClock,
    server::Metrics,
    stalls::StallMetrics,
    stream::{StreamMetrics, StreamProgress},
    text::{escape_label, write_head, write_sample},
    tls::{TlsMetrics, TlsOutcome},
    totals::MetricTotals,
    user::{
        Change, DEFAULT_BUCKETS, Labels, MAX_LABELS, MAX_SERIES, MetricRejected, MetricUpdate, Observations,
        check_increment,
    },
};
