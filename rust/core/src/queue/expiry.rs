//! Expiry: requests that are late or abandoned, and sequences that are over.

use super::{Queue, lane::Dropped, model_queue::Inner, sequences::Table};
use crate::{InferRequest, Result, SequenceId};

impl Queue {
    /// Number of active sequences.
    pub fn active_sequences(&self) -> usize {
        self.lock().sequences.as_ref().map_or(0, Table::len)
    }

    /// Returns true if a request may continue that sequence here.
    pub fn holds_sequence(&self, id: &SequenceId) -> bool {
        self.lock().sequences.as_ref().is_some_and(|table| table.is_open(self.now_ns(), id))
    }

    /// Ends the sequences of an instance that lost their state. Their waiting requests are refused.
    pub fn forget_sequences(&self, instance: usize) {
        let now_ns = self.now_ns();
        let mut inner = self.lock();
        let Inner { lanes, sequences, .. } = &mut *inner;
        let Some(table) = sequences else { return };
        let lane = instance % lanes.len();
        let dropped = lanes[lane].forget(table.of_instance(lane));
        self.reject_dropped(&mut inner, dropped, now_ns);
        // Their state is gone already.
        inner.lanes[lane].over.clear();
    }

    /// The number of sequences whose state an instance holds.
    pub fn sequences_of(&self, instance: usize) -> usize {
        let inner = self.lock();
        let lane = instance % inner.lanes.len();
        inner.sequences.as_ref().map_or(0, |table| table.of_instance(lane).len())
    }

    /// The lane of a request.
    pub(super) fn route(&self, inner: &mut Inner, request: &InferRequest, now_ns: u64) -> Result<usize> {
        if inner.sequences.is_none() {
            return Ok(0);
        }
        self.lapse(inner, now_ns);
        let draining = inner.draining;
        let Some(table) = &mut inner.sequences else { return Ok(0) };
        let lane = table.route(now_ns, draining, request, &self.spec)?;
        self.metrics.sequences.set(table.len() as i64);
        Ok(lane)
    }

    /// For models with sequences: drops dead requests, and takes the sequences that are over.
    pub(super) fn expire_sequences(&self, inner: &mut Inner, lane: usize, now_ns: u64) -> Option<Vec<SequenceId>> {
        inner.sequences.as_ref()?;
        self.lapse(inner, now_ns);
        let dropped = inner.lanes[lane].sweep(now_ns);
        self.reject_dropped(inner, dropped, now_ns);
        let over = std::mem::take(&mut inner.lanes[lane].over);
        (!over.is_empty()).then_some(over)
    }

    /// Ends the sequences that were silent for too long, and wakes the instances that hold them.
    fn lapse(&self, inner: &mut Inner, now_ns: u64) {
        let Some(table) = &mut inner.sequences else { return };
        let lapsed = table.lapse(now_ns);
        if lapsed.is_empty() {
            return;
        }
        self.metrics.sequences.set(table.len() as i64);
        self.metrics.sequences_lapsed.inc_by(lapsed.len() as u64);
        for (lane, id) in lapsed {
            inner.lanes[lane].over.push(id);
            self.notify(lane);
        }
    }

    /// Answers requests that will not be computed with errors, and ends their sequences.
    pub(super) fn reject_dropped(&self, inner: &mut Inner, dropped: Dropped, now_ns: u64) {
        let Inner { lanes, sequences, .. } = inner;
        if let Some(table) = sequences {
            for broken in &dropped.broken {
                if let Some(lane) = table.broke(now_ns, broken) {
                    lanes[lane].over.push(broken.id.clone());
                    self.notify(lane);
                }
            }
            self.metrics.sequences.set(table.len() as i64);
        }
        for dead in dropped.dead {
            self.metrics.queue_depth.dec();
            self.metrics.abandoned.inc();
            let error = dead.timeout_error(now_ns, &self.spec);
            dead.reply.send(Err(error));
        }
        for orphan in dropped.orphans {
            self.metrics.queue_depth.dec();
            let error = orphan.orphan_error(&self.spec);
            orphan.reply.send(Err(error));
        }
    }
}
