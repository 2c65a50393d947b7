//! Audit log: control changes and denied access, one line each, chained by hashes.

mod audit_log;
mod chain;
mod event;
mod sink;
mod verify;

pub(crate) use audit_log::AuditLog;
pub(crate) use event::AuditEvent;
pub use verify::{AuditedFiles, verify_audit_log};
