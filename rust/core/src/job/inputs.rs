//! Inputs of a batch, and the retry of a batch that ran out of memory.

use super::Job;
use crate::{
    Error, Inputs, Kind,
    batch::{
        gather::{gather, gather_copies, pad},
        ragged,
    },
};
use std::{sync::Arc, time::Duration};

impl Job {
    /// Joins the inputs of the batch. The inputs of a single request are not copied.
    pub fn gather(&mut self) -> Inputs {
        if self.spec().raw_requests {
            return Inputs::new();
        }
        if self.spec().is_ragged() {
            let spec = Arc::clone(self.spec());
            return ragged::gather(&spec, &mut self.parts, self.rows);
        }
        let keeps = self.parts.len() > 1 && self.spec().retries_on_oom();
        let mut inputs = if keeps {
            gather_copies(self.parts.iter().map(|part| &part.request.inputs), self.rows)
        } else {
            gather(self.parts.iter_mut().map(|part| &mut part.request.inputs), self.rows)
        };
        if let Some(batching) = &self.queue.spec().batching {
            pad(&mut inputs, self.rows, batching.padded(self.rows), batching.padding);
        }
        inputs
    }

    /// Pads the batch, or joins ragged rows, for executors that join rows otherwise. The first request then has the
    /// inputs
    /// of the whole batch.
    pub fn merge_inputs(&mut self) {
        if self.padded() == self.rows && !self.spec().is_ragged() {
            return;
        }
        let inputs = self.gather();
        self.parts.iter_mut().for_each(|part| part.request.inputs.clear());
        if let Some(first) = self.parts.first_mut() {
            first.request.inputs = inputs;
        }
    }

    /// Rows with padding, as the handler receives them.
    pub fn padded(&self) -> usize {
        self.spec().padded(self.rows)
    }

    /// Limits later batches to half the rows. Requeues the requests if they can run again; else returns the error for
    /// them.
    pub(super) fn retry_smaller(&mut self, error: Error) -> Option<Error> {
        let most = self.queue.shrink_batches(self.lane, self.rows);
        if self.parts.len() == 1 {
            return Some(error);
        }
        if !self.spec().retries_on_oom() {
            let Self { rows, .. } = *self;
            let text = format!(
                "model '{}' had no memory for a batch of {rows} rows, the next ones have {most} at most",
                self.spec().name
            );
            return Some(Error::new(Kind::Overloaded, text).retry_after(Duration::from_secs(1)));
        }
        self.metrics().cut(self.reason, self.rows);
        self.answered = true;
        let parts = std::mem::take(&mut self.parts);
        self.queue.requeue((self.instance, self.lane), parts, self.cut_at);
        None
    }
}
