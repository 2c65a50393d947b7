//! A request that waits.

use super::{bounds::Load, levels::Weighed, turns::Share};
use crate::{Error, InferRequest, Kind, ModelSpec, Reply, Step, batch::gather::RowKey, request::Lengths};
use std::time::Duration;

/// A request that waits. Times are nanoseconds since the queue was made.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: InferRequest,
    pub(crate) reply: Reply,
    pub(crate) key: RowKey,
    pub(crate) arrived_ns: u64,
    /// Its caller's deadline; `u64::MAX` without one.
    pub(crate) deadline_ns: u64,
    /// The end of the time that it may wait; `u64::MAX` without one.
    pub(crate) expires_ns: u64,
    /// When it goes behind those of its level that are in time; `u64::MAX` for never.
    pub(crate) falls_back_ns: u64,
    pub(crate) load: Load,
    pub(crate) share: Share,
    /// Its turn, where clients take turns.
    pub(crate) turn: u64,
    /// What it costs alone; 0 where rows have no cost.
    pub(crate) cost: u64,
    /// How long its rows are, where that may differ.
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

    /// What a dead request is answered.
    pub(crate) fn too_late(&self, now_ns: u64, spec: &ModelSpec) -> Error {
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

    /// What a request is answered whose sequence lacks the one before it.
    pub(crate) fn cut_short(&self, spec: &ModelSpec) -> Error {
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
