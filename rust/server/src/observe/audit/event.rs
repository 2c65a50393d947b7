//! Events of the audit log.

use super::super::plain::{MAX_NAME_BYTES, plain};
use penstock_core::ClientIdentity;

/// A control change, or denied access.
#[derive(Clone, Debug)]
pub(crate) struct AuditEvent {
    /// Name that the client's key or certificate proves; `None` also for the server's operator.
    pub(super) client: Option<String>,
    pub(super) address: Option<String>,
    pub(super) action: &'static str,
    /// Model, or method and path; `None` for the server as a whole.
    pub(super) target: Option<String>,
    pub(super) outcome: &'static str,
    /// Denials that have no line, since the last one.
    pub(super) skipped: u64,
}

impl AuditEvent {
    /// Creates an event of a client. Text that clients choose is escaped and limited.
    pub(crate) fn of_client(client: &ClientIdentity, action: &'static str, target: Option<&str>) -> Self {
        let name = |text: &str| plain(text, MAX_NAME_BYTES).into_owned();
        Self {
            client: client.proven_name().map(name),
            address: client.address.map(|address| address.to_string()),
            action,
            target: target.map(name),
            outcome: "started",
            skipped: 0,
        }
    }

    /// Creates an event of the server's operator.
    pub(crate) fn of_operator(action: &'static str, target: Option<&str>, ok: bool) -> Self {
        let event = Self::of_client(&ClientIdentity::default(), action, target);
        event.with_outcome(if ok { "ok" } else { "failed" })
    }

    /// Returns the event with another outcome.
    pub(crate) fn with_outcome(self, outcome: &'static str) -> Self {
        Self { outcome, ..self }
    }
}
