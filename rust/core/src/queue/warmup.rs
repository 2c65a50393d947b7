//! Calls that instances answer before their model takes requests.
//!
//! Each lies in a queue of its own, with metrics that nobody reads: so it takes the way of a request, and
//! is counted nowhere.

use super::{CutBatch, Next, Queue, queue::Inner};
use crate::{Error, InferRequest, Kind, ModelSpec, Queueing, ResponseStream, Result, metrics::Metrics};
use std::sync::Arc;

impl Queue {
    /// Has one instance, counted from 0, compute a request that no statistics and no metrics of the model
    /// count. For a model that takes no requests yet; the request waits for nothing, and for nobody.
    ///
    /// # Errors
    /// `InvalidInput` for what a request could not be either, `Unavailable` if the queue is closed.
    pub fn warm_up(self: &Arc<Self>, instance: usize, request: InferRequest) -> Result<ResponseStream> {
        self.spec.check_whole(&request, "computes")?;
        let spec = Arc::new(ModelSpec { queueing: Queueing::default(), ..ModelSpec::clone(&self.spec) });
        let metrics = Arc::new(Metrics::default().model(&spec));
        let aside = Arc::new(Self::new(spec, metrics));
        let pieces = aside.submit_stream(request, None)?;
        aside.close();
        let mut inner = self.lock();
        if inner.closed {
            return Err(Error::new(Kind::Unavailable, format!("model '{}' is shutting down", self.spec.name)));
        }
        inner.warmups.push((instance, aside));
        drop(inner);
        self.notify_all();
        Ok(pieces)
    }
}

impl Inner {
    /// What an instance is to compute before the model takes requests.
    pub(super) fn warm_up(&mut self, instance: usize) -> Option<CutBatch> {
        let place = self.warmups.iter().position(|(chosen, _)| *chosen == instance)?;
        let (_, aside) = self.warmups.swap_remove(place);
        // It is closed, so that this does not block, and holds a request whose caller may have left.
        let Next::Batch(batch) = aside.next_work(0, None, false) else { return None };
        // A sequence that it began is over with it, and no table knows of it.
        let steps = batch.parts.iter().filter_map(|part| part.request.schedule.step.as_ref());
        let (lane, keeps) = (instance % self.lanes.len(), self.sequences.is_some());
        self.lanes[lane].over.extend(steps.filter(|_| keeps).map(|step| step.id.clone()));
        Some(batch)
    }
}
