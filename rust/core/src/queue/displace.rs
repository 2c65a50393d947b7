//! Displacement: a full queue refuses waiting requests of the lowest priority in favour of a higher one that arrives.

use super::{
    Queue,
    bounds::{Candidate, Load},
    lane::{Lane, left},
    model_queue::Inner,
    pending::Pending,
};

impl Queue {
    /// Makes room for a candidate that the limits of the whole queue refuse. Returns whether there is room now. Without a
    /// candidate, whether there could be: its priority is not known before its body is read.
    ///
    /// The requests that would be served last go first. None goes if all that may go would not suffice.
    pub(super) fn displace(&self, inner: &mut Inner, candidate: Option<Candidate>) -> bool {
        if self.spec.queueing.priorities < 2 {
            return false;
        }
        let level = candidate.map_or(0, |candidate| candidate.level);
        let lower = inner.lanes.iter().fold(Load::default(), |sum, lane| sum + lane.waiting.load_below(level));
        let Some(candidate) = candidate else { return lower.requests > 0 };
        let mut remaining = inner.waiting();
        remaining -= lower;
        if inner.bounds.refusal(remaining, Some(candidate.load)).is_some()
            || self.late(inner, Some(candidate)).is_some()
            || self.refusal_of_share(inner, candidate).is_some()
        {
            return false;
        }
        let error = self.overloaded(inner, "has a full queue, and a request of a higher priority arrived");
        while inner.bounds.refusal(inner.waiting(), Some(candidate.load)).is_some() {
            let Some(last) = inner.lanes.iter_mut().find_map(|lane| lane.pop_below(level)) else { return false };
            self.metrics.queue_depth.dec();
            self.metrics.displaced.inc();
            last.reply.send(Err(error.clone()));
        }
        true
    }
}

impl Lane {
    /// Removes the request below a level that would be served last.
    pub(crate) fn pop_below(&mut self, level: usize) -> Option<Pending> {
        let last = self.waiting.pop_below(level)?;
        left(&mut self.turns, &last, false);
        Some(last)
    }
}
