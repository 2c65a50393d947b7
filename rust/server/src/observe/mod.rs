//! Access log, slow requests, audit log, server log, trace settings and spans.

mod access_log;
mod audit;
pub(crate) mod live;
pub(crate) mod liveness;
mod log;
mod log_events;
mod plain;
pub(crate) mod process_metrics;
mod request_log;
mod sample;
mod short_log;
mod slow;
pub(crate) mod spans;
mod timestamp;
mod trace_settings;

pub(crate) use access_log::{Entry, RequestFacts};
pub(crate) use audit::{AuditEvent, AuditLog};
pub use audit::{AuditedFiles, verify_audit_log};
pub(crate) use liveness::Liveness;
pub(crate) use log::Log;
pub(crate) use log_events::TracingEvents;
pub use plain::{MAX_NAME_BYTES, plain};
pub(crate) use request_log::RequestLog;
pub(crate) use short_log::ShortEntry;
pub(crate) use trace_settings::TraceSettingsTable;
