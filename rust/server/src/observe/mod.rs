//! Access log, server log, trace settings and spans.

mod access_log;
pub(crate) mod live;
pub(crate) mod liveness;
mod log;
mod log_events;
pub(crate) mod process_metrics;
mod short_log;
pub(crate) mod spans;
mod timestamp;
mod trace_settings;

pub(crate) use access_log::Entry;
pub use access_log::{MAX_NAME_BYTES, plain};
pub(crate) use liveness::Liveness;
pub(crate) use log::Log;
pub(crate) use log_events::TracingEvents;
pub(crate) use short_log::ShortEntry;
pub(crate) use trace_settings::TraceSettingsTable;
