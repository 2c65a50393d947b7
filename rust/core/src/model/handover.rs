//! Handover of sequences: a model that replaces another one routes the other's sequences to it until they end.

use super::Model;
use crate::{Error, InferRequest, ModelSpec, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Replaced models with sequences, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Replaced(Mutex<Vec<Arc<Model>>>);

impl Model {
    /// Replaces `left`: requests that continue its sequences reach it through this model.
    pub(crate) fn take_over(&self, left: &Arc<Self>) {
        if self.spec().sequences.is_none() || left.spec().sequences.is_none() {
            return;
        }
        let mut before = std::mem::take(&mut *left.replaced.lock());
        let mut replaced = self.replaced.lock();
        replaced.append(&mut before);
        replaced.push(Arc::clone(left));
    }

    /// Drops the replaced models without sequences, which ends their instances.
    pub(crate) fn drop_drained(&self) {
        let mut replaced = self.replaced.lock();
        // A request that found the model before the swap may still start a sequence on it.
        let is_needed = |model: &Arc<Self>| model.queue().active_sequences() > 0 || Arc::strong_count(model) > 1;
        let (needed, done) = std::mem::take(&mut *replaced).into_iter().partition(is_needed);
        *replaced = needed;
        drop(replaced);
        drop::<Vec<_>>(done);
    }

    /// Number of active sequences, on this model and on those that it replaced.
    pub fn active_sequences(&self) -> usize {
        let replaced: usize = self.replaced.lock().iter().map(|model| model.queue().active_sequences()).sum();
        self.queue().active_sequences() + replaced
    }

    /// Replaced model that holds the request's sequence.
    ///
    /// # Errors
    /// `InvalidInput`: that model has other inputs or outputs. The request was decoded for this one.
    pub(crate) fn sequence_owner(&self, request: &InferRequest) -> Result<Option<Arc<Self>>> {
        let Some(step) = request.schedule.step.as_deref().filter(|step| !step.start) else { return Ok(None) };
        let replaced = self.replaced.lock();
        if replaced.is_empty() || self.queue().holds_sequence(&step.id) {
            return Ok(None);
        }
        let Some(holder) = replaced.iter().rev().find(|model| model.queue().holds_sequence(&step.id)) else {
            return Ok(None);
        };
        if !same_interface(self.spec(), holder.spec()) {
            return Err(Error::invalid(format!(
                "sequence {} must begin again with sequence_start: model '{}' was replaced by one with other inputs \
                 or outputs",
                step.id,
                self.spec().name
            )));
        }
        Ok(Some(Arc::clone(holder)))
    }
}

impl Replaced {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Model>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if requests and responses of both models have the same form.
fn same_interface(one: &ModelSpec, other: &ModelSpec) -> bool {
    (one.batching.is_some(), one.streams, &one.inputs, &one.outputs)
        == (other.batching.is_some(), other.streams, &other.inputs, &other.outputs)
}
