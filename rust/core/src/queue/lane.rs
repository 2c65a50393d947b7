//! Lanes: requests that wait for the same instances. A model has one lane. A model with sequences has one lane per
//! instance, because a sequence stays on its instance.

use super::{
    compatible::BatchRules,
    levels::{Levels, Place},
    pending::Pending,
    sequences::Broken,
    turns::Turns,
};
use crate::{
    Client, ModelSpec, Part, SequenceId, Step,
    batch::{
        gather::RowKey,
        policy::{State, View},
    },
};

use std::{collections::HashSet, time::Duration};

/// Waiting requests, and the state of the instances that pull them.
///
/// Of the instances, `busy` have a batch and `parked` wait for work. The others are on their way: they hold the
/// queue's lock, or are about to take it. Such an instance checks the lane again, so no notification is needed.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) waiting: Levels<Pending>,
    pub(crate) policy: State,
    pub(crate) busy: usize,
    /// Instances with a batch that wait for the GIL.
    pub(crate) entering: usize,
    pub(crate) parked: usize,
    /// Parked instances with a timeout. They check the lane again without a notification.
    pub(crate) timed: usize,
    /// The lane waits for resources, and is registered for them.
    pub(crate) waits_for_resources: bool,
    /// Number of waiting requests from which a parked instance is notified.
    pub(crate) notify_at: usize,
    /// Sequences that are over, whose state the instance still holds.
    pub(crate) over: Vec<SequenceId>,
    /// Requests are steps of sequences: no two steps of one sequence share a batch.
    in_sequence: bool,
    /// Turns of clients, for fair queueing.
    pub(super) turns: Option<Box<Turns>>,
    /// Levels that delay overdue requests.
    delaying: Vec<usize>,
    rules: BatchRules,
}

/// Request for parts of a batch.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) rows: usize,
    /// Key of the rows; `None` for the first request's.
    pub(crate) key: Option<RowKey>,
    /// Takes more than one request.
    pub(crate) joins: bool,
}

/// Parts of a batch.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) parts: Vec<Part>,
    /// Cost of the batch, if rows have a cost.
    pub(crate) cost: Option<u64>,
}

/// Requests that will not be computed.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// Abandoned or overdue requests.
    pub(crate) dead: Vec<Pending>,
    /// Requests behind a dead one of their sequence.
    pub(crate) orphans: Vec<Pending>,
    pub(crate) broken: Vec<Broken>,
}

impl Lane {
    pub(crate) fn new(spec: &ModelSpec) -> Self {
        let in_sequence = spec.sequences.is_some();
        let delaying = if in_sequence { Vec::new() } else { spec.queueing.delaying() };
        Self {
            waiting: Levels::new(if in_sequence { 1 } else { spec.queueing.priorities }, !delaying.is_empty()),
            policy: State::new(spec.batching.as_ref(), if in_sequence { 1 } else { spec.instances }),
            busy: 0,
            entering: 0,
            parked: 0,
            timed: 0,
            waits_for_resources: false,
            notify_at: 1,
            over: Vec::new(),
            in_sequence,
            turns: spec.queueing.fair.as_ref().map(|_| Box::new(Turns::new(spec.queueing.priorities))),
            delaying,
            rules: BatchRules::new(spec),
        }
    }

    /// Adds a request: at the end of its level, or at its client's turn.
    pub(crate) fn push(&mut self, mut pending: Pending) {
        let level = pending.share.level;
        let Some(turns) = &mut self.turns else { return self.waiting.push(level, pending) };
        pending.turn = turns.arrived(pending.share);
        let turn = pending.turn;
        self.waiting.insert(level, pending, |other| other.turn > turn);
    }

    /// Puts a request back at the front of its level.
    pub(crate) fn put_back(&mut self, mut pending: Pending) {
        let level = pending.share.level;
        if let Some(turns) = &mut self.turns {
            turns.returned(pending.share);
            // The turns of a level must ascend.
            pending.turn = self.waiting.first_of(level).map_or(0, |first| first.turn);
        }
        self.waiting.push_front(level, pending);
    }

    /// Waiting rows of a client, for fair queueing.
    pub(crate) fn rows_of(&self, client: Client) -> usize {
        self.turns.as_ref().map_or(0, |turns| turns.waiting(client))
    }

    /// Arrival of the oldest request.
    fn oldest_ns(&self) -> Option<u64> {
        match &self.turns {
            None => self.waiting.fronts().map(|first| first.arrived_ns).min(),
            Some(_) => self.waiting.iter().map(|pending| pending.arrived_ns).min(),
        }
    }

    /// Moves overdue requests to the end of their level, if the level delays them.
    pub(crate) fn demote_overdue(&mut self, now_ns: u64) {
        for level in &self.delaying {
            self.waiting.delay(*level, |pending| pending.demote_ns <= now_ns);
        }
    }

    /// Sets the number of waiting requests from which a parked instance is notified.
    pub(crate) fn notify_from(&mut self, requests: usize) {
        // The cost of the next request is unknown, so it is checked at each arrival.
        self.notify_at = if self.rules.has_cost() { requests.min(self.waiting.len() + 1) } else { requests };
    }

    /// Returns true if a parked instance has to be notified of an arrival.
    ///
    /// `notify_at` belongs to the last instance that checked the lane. It is obeyed only while an instance checks again
    /// on
    /// a timeout or when resources are free. Otherwise that instance may have a batch by now, and the parked ones would
    /// miss the arrival.
    pub(crate) fn wants_notify(&self) -> bool {
        let awaits_more = self.timed > 0 || self.waits_for_resources;
        self.parked > 0 && (!awaits_more || self.waiting.len() >= self.notify_at)
    }

    /// View of the lane for the policy.
    pub(crate) fn view(&self, max_size: usize, draining: bool) -> View {
        let Some(first) = self.waiting.get(&mut Place::default()) else { return View { draining, ..View::default() } };
        let (mut rows, mut deadline_ns) = (0, u64::MAX);
        let (mut batch, mut is_cost_full) = (self.rules.none(), false);
        let mut steps = HashSet::new();
        let fits = |pending: &&Pending| pending.key == first.key && self.is_next(pending, &mut steps);
        // Requests beyond a full batch do not change the decision.
        let (mut count, mut alike) = (0, self.waiting.iter().filter(fits));
        while count < max_size
            && let Some(pending) = alike.next()
        {
            if !batch.in_window(pending) {
                continue;
            }
            count += 1;
            is_cost_full = rows > 0 && batch.is_full_for(pending);
            if is_cost_full {
                break;
            }
            rows += pending.request.rows;
            batch.add(pending);
            deadline_ns = deadline_ns.min(pending.deadline_ns).min(pending.expires_ns);
        }
        View {
            rows,
            cost: batch.cost(),
            is_cost_full: is_cost_full || batch.is_full(),
            requests: self.waiting.len(),
            oldest_ns: self.oldest_ns().unwrap_or(first.arrived_ns),
            deadline_ns: (deadline_ns < u64::MAX).then_some(deadline_ns),
            busy: self.busy,
            entering: self.entering,
            draining,
        }
    }

    /// Takes the first requests that fit together, in order. Dead requests in front of them are dropped; with sequences
    /// they are swept before.
    pub(crate) fn take(&mut self, want: Want, now_ns: u64, dropped: &mut Dropped) -> Taken {
        let mut parts = Vec::with_capacity(want.rows.min(self.waiting.len()));
        // With a given key the requests join other rows.
        let joins_others = want.key.is_some();
        let (mut rows, mut place, mut key) = (0, Place::default(), want.key);
        let mut batch = self.rules.none();
        let mut steps = HashSet::new();
        while rows < want.rows
            && let Some(next) = self.waiting.get(&mut place)
        {
            if !self.in_sequence && next.is_dead(now_ns) {
                let Some(dead) = self.waiting.remove(place) else { break };
                left(&mut self.turns, &dead, false);
                dropped.dead.push(dead);
                continue;
            }
            // A skipped request blocks the rest of its sequence.
            let is_next = self.is_next(next, &mut steps);
            if !is_next || key.as_ref().is_some_and(|key| *key != next.key) || !batch.in_window(next) {
                place.skip();
                continue;
            }
            // A request is never divided here. An oversized one runs alone, and later requests do not overtake it.
            let is_too_much = rows + next.request.rows > want.rows || batch.is_full_for(next);
            if is_too_much && (joins_others || !parts.is_empty()) {
                break;
            }
            batch.add(next);
            let Some(pending) = self.waiting.remove(place) else { break };
            left(&mut self.turns, &pending, true);
            let Pending { request, reply, key: own, arrived_ns, .. } = pending;
            rows += request.rows;
            key.get_or_insert(own);
            let waited = Duration::from_nanos(now_ns.saturating_sub(arrived_ns));
            parts.push(Part { request, reply, waited });
            if !want.joins {
                break;
            }
        }
        let cost = batch.cost();
        Taken { parts, cost }
    }

    /// Drops dead requests, and the requests behind them in their sequences.
    pub(crate) fn sweep(&mut self, now_ns: u64) -> Dropped {
        let mut dropped = Dropped::default();
        if !self.waiting.iter().any(|pending| pending.is_dead(now_ns)) {
            return dropped;
        }
        let in_sequence = self.in_sequence;
        let gone = self.waiting.part(|pending| {
            let dead = pending.is_dead(now_ns);
            let orphan = in_sequence && pending.step().is_some_and(|step| dropped.follows(step, dead));
            (dead || orphan).then_some(orphan)
        });
        for (orphan, pending) in gone {
            left(&mut self.turns, &pending, false);
            let list = if orphan { &mut dropped.orphans } else { &mut dropped.dead };
            list.push(pending);
        }
        dropped
    }

    /// Drops the steps of lost sequences, each up to the step that starts it again.
    pub(crate) fn forget(&mut self, lost: Vec<SequenceId>) -> Dropped {
        let broken = lost.into_iter().map(|id| Broken { id, dropped: 0, restarts: false }).collect();
        let mut dropped = Dropped { broken, ..Dropped::default() };
        let gone =
            self.waiting.part(|pending| pending.step().is_some_and(|step| dropped.follows(step, false)).then_some(()));
        dropped.orphans.extend(gone.into_iter().map(|(_, pending)| pending));
        dropped
    }

    /// Returns true if no earlier request of the sequence waits.
    fn is_next(&self, pending: &Pending, steps: &mut HashSet<SequenceId>) -> bool {
        !self.in_sequence || pending.step().is_none_or(|step| steps.insert(step.id.clone()))
    }
}

/// Records that a request was served or dropped.
pub(super) fn left(turns: &mut Option<Box<Turns>>, pending: &Pending, served: bool) {
    if let Some(turns) = turns {
        turns.left(pending.share, served.then_some(pending.turn));
    }
}

impl Dropped {
    /// Records a step; returns true if a request before it in its sequence was dropped.
    fn follows(&mut self, step: &Step, dead: bool) -> bool {
        let broken = match self.broken.iter_mut().find(|broken| broken.id == step.id) {
            Some(broken) => broken,
            None if dead => {
                self.broken.push(Broken { id: step.id.clone(), dropped: 1, restarts: false });
                return false;
            }
            None => return false,
        };
        if !dead && (step.start || broken.restarts) {
            broken.restarts = true;
            return false;
        }
        broken.dropped += 1;
        broken.restarts = false;
        !dead
    }
}
