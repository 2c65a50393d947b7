//! Warm-up calls, before a model is ready.
//!
//! Each call has a separate queue with separate metrics. It takes the path of a request, and is counted nowhere.

use super::{CutBatch, Next, Queue, model_queue::Inner};
use crate::{Error, InferRequest, Kind, ModelSpec, Queueing, ResponseStream, Result, metrics::Metrics};
use std::sync::Arc;

impl Queue {
    /// Submits a warm-up request to one instance, counted from 0. It skips limits, statistics and the model's metrics.
    ///
    /// # Errors
    /// `InvalidInput`: the request is too large. `Unavailable`: the queue is closed.
    pub fn warm_up(self: &Arc<Self>, instance: usize, request: InferRequest) -> Result<ResponseStream> {
        self.spec.check_whole(&request, "computes")?;
        let spec = Arc::new(ModelSpec { queueing: Queueing::default(), ..ModelSpec::clone(&self.spec) });
        let metrics = Arc::new(Metrics::default().model(&spec));
        let separate = Arc::new(Self::new(spec, metrics));
        let pieces = separate.submit_stream(request, None)?;
        separate.close();
        let mut inner = self.lock();
        if inner.closed {
            return Err(Error::new(Kind::Unavailable, format!("model '{}' is shutting down", self.spec.name)));
        }
        inner.warmups.push((instance, separate));
        drop(inner);
        self.notify_all();
        Ok(pieces)
    }
}

impl Inner {
    /// Takes the next warm-up call of an instance.
    pub(super) fn warm_up(&mut self, instance: usize) -> Option<CutBatch> {
        let place = self.warmups.iter().position(|(chosen, _)| *chosen == instance)?;
        let (_, separate) = self.warmups.swap_remove(place);
        // The separate queue is closed, so this does not block. Its request may be abandoned.
        let Next::Batch(batch) = separate.next_work(0, None, false) else { return None };
        // The table does not know the sequence, so its state is dropped right after the call.
        let steps = batch.parts.iter().filter_map(|part| part.request.schedule.step.as_ref());
        let (lane, keeps) = (instance % self.lanes.len(), self.sequences.is_some());
        self.lanes[lane].over.extend(steps.filter(|_| keeps).map(|step| step.id.clone()));
        Some(batch)
    }
}
