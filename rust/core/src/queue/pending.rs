//! Waiting requests.

use super::{bounds::Load, levels::Weighed, turns::Share};
use crate::{Error, InferRequest, Kind, ModelSpec, Reply, Step, batch::gather::RowKey, request::Lengths};
use std::time::Duration;

/// A waiting request. Times are nanoseconds since the queue was created.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: InferRequest,
    pub(crate) reply: Reply,
    pub(crate) key: RowKey,
    pub(crate) arrived_ns: u64,
    /// Client's deadline; `u64::MAX` without one.
    pub(crate) deadline_ns: u64,
    /// End of the allowed wait; `u64::MAX` without a limit.
    pub(crate) expires_ns: u64,
    /// Time to move behind the requests of its level that are not overdue; `u64::MAX` for never.
    pub(crate) demote_ns: u64,
    pub(crate) load: Load,
    pub(crate) share: Share,
    /// Turn, for fair queueing.
    pub(crate) turn: u64,
    /// Cost of the request alone; 0 if rows have no cost.
    pub(crate) cost: u64,
    /// Row lengths of the ragged inputs.
    pub(crate) lengths: Lengths,
}

impl Weighed for Pending {
    fn load(&self) -> Load {
        self.load
    }
}

impl Pending {
    pub(crate) fn is_dead(&self, now_ns: u64) -> bool {
        self.deadline_ns.min(self.expires_ns) <= now_ns || self.reply.is_abandoned()
    }

    /// Error for a dead request.
    pub(crate) fn timeout_error(&self, now_ns: u64, spec: &ModelSpec) -> Error {
        if self.expires_ns <= now_ns && self.deadline_ns > now_ns {
            let limit = Duration::from_nanos(self.expires_ns.saturating_sub(self.arrived_ns));
            let model = &spec.name;
            return Error::new(
                Kind::Timeout,
                format!("the request waited in the queue of model '{model}' for its limit of {limit:?}"),
            );
        }
        Error::new(
            Kind::Timeout,
            format!("the deadline passed while the request waited in the queue of model '{}'", spec.name),
        )
    }

    /// Error for a request whose predecessor in the sequence was not computed.
    pub(crate) fn orphan_error(&self, spec: &ModelSpec) -> Error {
        let id = self.step().map(|step| step.id.to_string()).unwrap_or_default();
        Error::invalid(format!(
            "sequence {id} must begin again with sequence_start: model '{}' did not compute a request before this one",
            spec.name
        ))
    }

    pub(super) fn step(&self) -> Option<&Step> {
        self.request.schedule.step.as_deref()
    }
}
