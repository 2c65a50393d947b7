//! Requests that wait for the same instances. A model has one lane; a model with sequences has one for
//! each instance, since a sequence's requests may go to no other.

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

/// One line of requests, and the instances that take from it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) waiting: Levels<Pending>,
    pub(crate) policy: State,
    pub(crate) busy: usize,
    /// How many of them have a batch, and wait for what only one has at a time.
    pub(crate) entering: usize,
    pub(crate) parked: usize,
    /// How many of those look again by themselves, at some time.
    pub(crate) timed: usize,
    /// Whether it waits for its turn to take resources.
    pub(crate) in_line: bool,
    /// The number of waiting requests from which on a parked instance wants to look again.
    pub(crate) notify_at: usize,
    /// Sequences that are over, whose state the instance still holds.
    pub(crate) over: Vec<SequenceId>,
    /// Whether requests are steps of sequences: no two of one sequence share a batch.
    in_sequence: bool,
    /// Whose turn it is, where clients take turns.
    turns: Option<Box<Turns>>,
    /// Levels whose late requests are delayed.
    delaying: Vec<usize>,
    joining: BatchRules,
}

/// Which requests to take.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) rows: usize,
    /// The rows' sizes; `None` for those of the first request.
    pub(crate) key: Option<RowKey>,
    /// Whether more than one may go.
    pub(crate) joins: bool,
}

/// What was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) parts: Vec<Part>,
    /// What they cost together, where rows have a cost.
    pub(crate) cost: Option<u64>,
}

/// Requests that will not be computed.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// Their callers have left, or it is too late.
    pub(crate) dead: Vec<Pending>,
    /// A request of their sequence before them is dead.
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
            in_line: false,
            notify_at: 1,
            over: Vec::new(),
            in_sequence,
            turns: spec.queueing.fair.as_ref().map(|_| Box::new(Turns::new(spec.queueing.priorities))),
            delaying,
            joining: BatchRules::new(spec),
        }
    }

    /// Adds a request: behind those of its level, or at its client's turn.
    pub(crate) fn push(&mut self, mut pending: Pending) {
        let level = pending.share.level;
        let Some(turns) = &mut self.turns else { return self.waiting.push(level, pending) };
        pending.turn = turns.arrived(pending.share);
        let turn = pending.turn;
        self.waiting.insert(level, pending, |other| other.turn > turn);
    }

    /// Puts a request that was taken in front of its level.
    pub(crate) fn put_back(&mut self, mut pending: Pending) {
        let level = pending.share.level;
        if let Some(turns) = &mut self.turns {
            turns.returned(pending.share);
            // In front of it nothing may have a later turn.
            pending.turn = self.waiting.first_of(level).map_or(0, |first| first.turn);
        }
        self.waiting.push_front(level, pending);
    }

    /// Rows of a client that wait, where clients take turns.
    pub(crate) fn rows_of(&self, client: Client) -> usize {
        self.turns.as_ref().map_or(0, |turns| turns.waiting(client))
    }

    /// When the one came that waits for longest.
    fn oldest_ns(&self) -> Option<u64> {
        match &self.turns {
            None => self.waiting.fronts().map(|first| first.arrived_ns).min(),
            Some(_) => self.waiting.iter().map(|pending| pending.arrived_ns).min(),
        }
    }

    /// Puts those that are late behind those of their level that are not, where it is so declared.
    pub(crate) fn demote_overdue(&mut self, now_ns: u64) {
        for level in &self.delaying {
            self.waiting.delay(*level, |pending| pending.falls_back_ns <= now_ns);
        }
    }

    /// An instance that waits for that many requests, or for a batch that costs enough, is to be rung from here on.
    pub(crate) fn notify_from(&mut self, requests: usize) {
        // What the next one costs is not known.
        self.notify_at = if self.joining.has_cost() { requests.min(self.waiting.len() + 1) } else { requests };
    }

    /// Whether a request that has come is for a parked instance to look at now. What the last one said that looked
    /// counts only while it looks again by itself: it may have a batch by now.
    pub(crate) fn wants_notify(&self) -> bool {
        let awaits_more = self.timed > 0 || self.in_line;
        self.parked > 0 && (!awaits_more || self.waiting.len() >= self.notify_at)
    }

    /// What the policy sees of it.
    pub(crate) fn view(&self, max_size: usize, draining: bool) -> View {
        let Some(first) = self.waiting.get(&mut Place::default()) else { return View { draining, ..View::default() } };
        let (mut rows, mut deadline_ns) = (0, u64::MAX);
        let (mut together, mut is_cost_full) = (self.joining.none(), false);
        let mut steps = HashSet::new();
        let fits = |pending: &&Pending| pending.key == first.key && self.is_next(pending, &mut steps);
        // Beyond a full batch nothing changes the decision.
        let (mut count, mut alike) = (0, self.waiting.iter().filter(fits));
        while count < max_size
            && let Some(pending) = alike.next()
        {
            if !together.in_window(pending) {
                continue;
            }
            count += 1;
            is_cost_full = rows > 0 && together.is_full_for(pending);
            if is_cost_full {
                break;
            }
            rows += pending.request.rows;
            together.add(pending);
            deadline_ns = deadline_ns.min(pending.deadline_ns).min(pending.expires_ns);
        }
        View {
            rows,
            cost: together.cost(),
            is_cost_full: is_cost_full || together.is_full(),
            requests: self.waiting.len(),
            oldest_ns: self.oldest_ns().unwrap_or(first.arrived_ns),
            deadline_ns: (deadline_ns < u64::MAX).then_some(deadline_ns),
            busy: self.busy,
            entering: self.entering,
            draining,
        }
    }

    /// Takes the first requests that fit together, in order. The dead that lie before them are dropped;
    /// of sequences they must be swept before.
    pub(crate) fn take(&mut self, want: Want, now_ns: u64, dropped: &mut Dropped) -> Taken {
        let mut parts = Vec::with_capacity(want.rows.min(self.waiting.len()));
        // With the sizes of others' rows it is never alone.
        let joins_others = want.key.is_some();
        let (mut rows, mut place, mut key) = (0, Place::default(), want.key);
        let mut together = self.joining.none();
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
            // Who is passed over keeps the rest of its sequence from going.
            let is_next = self.is_next(next, &mut steps);
            if !is_next || key.as_ref().is_some_and(|key| *key != next.key) || !together.in_window(next) {
                place.skip();
                continue;
            }
            // A request goes whole, if need be alone; the next ones may not overtake it.
            let is_too_much = rows + next.request.rows > want.rows || together.is_full_for(next);
            if is_too_much && (joins_others || !parts.is_empty()) {
                break;
            }
            together.add(next);
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
        let cost = together.cost();
        Taken { parts, cost }
    }

    /// Drops the dead, and with them what follows in their sequences.
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

    /// Drops the steps of sequences whose state is lost, up to where each begins anew.
    pub(crate) fn forget(&mut self, lost: Vec<SequenceId>) -> Dropped {
        let broken = lost.into_iter().map(|id| Broken { id, dropped: 0, restarts: false }).collect();
        let mut dropped = Dropped { broken, ..Dropped::default() };
        let gone =
            self.waiting.part(|pending| pending.step().is_some_and(|step| dropped.follows(step, false)).then_some(()));
        dropped.orphans.extend(gone.into_iter().map(|(_, pending)| pending));
        dropped
    }

    /// Whether no earlier request of its sequence waits.
    fn is_next(&self, pending: &Pending, steps: &mut HashSet<SequenceId>) -> bool {
        !self.in_sequence || pending.step().is_none_or(|step| steps.insert(step.id.clone()))
    }
}

/// Tells that a request is gone: served, or dropped.
fn left(turns: &mut Option<Box<Turns>>, pending: &Pending, served: bool) {
    if let Some(turns) = turns {
        turns.left(pending.share, served.then_some(pending.turn));
    }
}

impl Dropped {
    /// BatchLog a step, and says whether a request before it in its sequence was dropped.
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
