//! Control changes and denied access in the audit log.

use super::context::Context;
use crate::observe::{AuditEvent, AuditLog};
use penstock_core::{Error, Kind, Result};

impl Context {
    /// Makes a control change, with a line of the audit log before it and one with its outcome.
    ///
    /// # Errors
    /// Those of the change; `Unavailable` where the first line cannot be written: nothing is changed.
    pub(crate) async fn audited<T>(
        &self,
        (action, target): (&'static str, Option<&str>),
        change: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(audit) = self.app.log.audit() else { return change.await };
        let event = AuditEvent::of_client(&self.client, action, target);
        audit.record(event.clone()).await?;
        let mut open = OpenChange { audit, event: Some(event) };
        let result = change.await;
        // The change is made: without this line the first one shows it.
        let outcome = result.as_ref().map_or_else(|error| error.kind().name(), |_| "ok");
        if let Some(event) = open.event.take() {
            let _ = audit.record(event.with_outcome(outcome)).await;
        }
        result
    }

    /// Records access that the server denied; other errors are ignored.
    #[cold]
    pub(crate) fn audit_denied(&self, error: &Error, method: &str, path: &str) {
        if let Kind::Unauthenticated | Kind::Forbidden = error.kind()
            && let Some(audit) = self.app.log.audit()
        {
            let event = AuditEvent::of_client(&self.client, "access", Some(&format!("{method} {path}")));
            audit.denied(event.with_outcome(error.kind().name()));
        }
    }
}

/// A change without an outcome, because its client left. It may still be made.
struct OpenChange<'a> {
    audit: &'a AuditLog,
    event: Option<AuditEvent>,
}

impl Drop for OpenChange<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.audit.note(event.with_outcome(Kind::Cancelled.name()));
        }
    }
}
