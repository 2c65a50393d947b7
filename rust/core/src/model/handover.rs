//! What a model owes those that it took the place of: their sequences go on where their state is.

use super::Model;
use crate::{Error, InferRequest, ModelSpec, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Models that were replaced, and whose sequences may still go on. The newest is the last.
#[derive(Debug, Default)]
pub(crate) struct Replaced(Mutex<Vec<Arc<Model>>>);

impl Model {
    /// Takes the place of `left`: requests that go on with one of its sequences reach it through this model.
    pub(crate) fn take_over(&self, left: &Arc<Self>) {
        if self.spec().sequences.is_none() || left.spec().sequences.is_none() {
            return;
        }
        let mut before = std::mem::take(&mut *left.replaced.lock());
        let mut replaced = self.replaced.lock();
        replaced.append(&mut before);
        replaced.push(Arc::clone(left));
    }

    /// Lets go of the models that it replaced and that hold no sequence any more. They end then.
    pub(crate) fn drop_drained(&self) {
        let mut replaced = self.replaced.lock();
        // Who found it before it was replaced may still begin one.
        let is_needed = |model: &Arc<Self>| model.queue().active_sequences() > 0 || Arc::strong_count(model) > 1;
        let (needed, done) = std::mem::take(&mut *replaced).into_iter().partition(is_needed);
        *replaced = needed;
        drop(replaced);
        drop::<Vec<_>>(done);
    }

    /// Sequences that are active here, or on a model that this one replaced.
    pub fn active_sequences(&self) -> usize {
        let replaced: usize = self.replaced.lock().iter().map(|model| model.queue().active_sequences()).sum();
        self.queue().active_sequences() + replaced
    }

    /// The replaced model that holds the sequence that a request goes on with.
    ///
    /// # Errors
    /// `InvalidInput` if that one takes or gives other tensors: the request was decoded for this one.
    pub(crate) fn sequence_owner(&self, request: &InferRequest) -> Result<Option<Arc<Self>>> {
        let Some(step) = request.schedule.step.as_deref().filter(|step| !step.start) else { return Ok(None) };
        let replaced = self.replaced.lock();
        if replaced.is_empty() || self.queue().holds_sequence(&step.id) {
            return Ok(None);
        }
        let Some(holder) = replaced.iter().rev().find(|model| model.queue().holds_sequence(&step.id)) else {
            return Ok(None);
        };
        if !speak_alike(self.spec(), holder.spec()) {
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

/// Whether a request and an answer of the one are of the other too.
fn speak_alike(one: &ModelSpec, other: &ModelSpec) -> bool {
    (one.batching.is_some(), one.streams, &one.inputs, &one.outputs)
        == (other.batching.is_some(), other.streams, &other.inputs, &other.outputs)
}
