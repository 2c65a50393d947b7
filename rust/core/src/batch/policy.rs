//! Batch policy. [`decide`] is a pure function of (now, state, view): no clock, no lock, no task.
//!
//! By default a free instance takes all waiting requests, up to the largest batch. It waits for more in two bounded
//! cases: the learned hold ([`super::returns`]), and with several instances the stagger, which spreads their starts by
//! a fraction of the fixed batch cost. `max_delay` adds a wait, counted from the oldest arrival, if it is set.

use super::{
    cost::CostModel,
    returns::Returns,
    target::{Reach, at_best_ns, reach},
};
pub use super::{
    decision::{Decision, View},
    reason::Reason,
};
use crate::Batching;

/// Maximum delay of a start by the stagger, in nanoseconds.
const MAX_STAGGER_NS: u64 = 2_000_000;

/// Batches shorter than this, in nanoseconds, are fast.
const FAST_NS: u64 = 100_000;

/// Maximum average requests of a batch for clients that come nearly one by one.
const FEW_REQUESTS: f64 = 1.5;

/// Learned state and limits of the policy.
#[derive(Clone, Debug)]
pub struct State {
    /// Learned cost of a batch.
    pub cost: CostModel,
    /// Learned share of returning clients.
    pub returns: Returns,
    last_start_ns: Option<u64>,
    /// Average requests of a batch; the newest batch weighs a tenth.
    requests_a_batch: f64,
    cap: Option<usize>,
    limits: Limits,
}

#[derive(Clone, Debug)]
struct Limits {
    max_size: usize,
    max_delay_ns: u64,
    preferred_sizes: Vec<usize>,
    hold: bool,
    instances: usize,
    target_ns: Option<u64>,
    max_duration_ns: Option<u64>,
}

impl State {
    /// State of a new queue.
    pub fn new(batching: Option<&Batching>, instances: usize) -> Self {
        let joins = batching.filter(|batching| batching.dynamic);
        Self {
            cost: CostModel::default(),
            returns: Returns::default(),
            last_start_ns: None,
            requests_a_batch: 1.0,
            cap: None,
            limits: Limits {
                max_size: joins.map_or(1, |batching| batching.max_size),
                max_delay_ns: joins.map_or(0, |batching| batching.max_delay_ns),
                preferred_sizes: joins.map_or_else(Vec::new, |batching| batching.preferred_sizes.clone()),
                hold: joins.is_some_and(|batching| batching.hold && batching.max_size > 1),
                instances,
                target_ns: joins.and_then(|batching| batching.target_ns),
                max_duration_ns: joins.and_then(|batching| batching.max_duration_ns),
            },
        }
    }

    /// Maximum rows of a batch, regardless of its duration.
    pub fn max_size(&self) -> usize {
        self.limits.max_size
    }

    /// Maximum rows of the next batch: those that are expected to finish within `max_duration`.
    pub fn largest(&self) -> usize {
        match self.limits.max_duration_ns {
            None => self.limits.max_size,
            Some(most_ns) => self.cost.units_within(most_ns).clamp(1, self.limits.max_size),
        }
    }

    /// Halves the maximum after a batch of `rows` ran out of memory.
    pub fn too_large(&mut self, rows: usize) {
        self.limits.max_size = self.limits.max_size.min((rows / 2).max(1));
        self.cap = Some(self.limits.max_size);
    }

    /// Maximum wait of the oldest request, in nanoseconds, and the state of the learned hold.
    pub fn waits(&self) -> (u64, bool) {
        (self.limits.max_delay_ns, self.limits.hold)
    }

    /// Applies the given options. A given size replaces a learned one.
    pub fn tune(&mut self, max_size: Option<usize>, max_delay_ns: Option<u64>, hold: Option<bool>) {
        if let Some(size) = max_size {
            (self.limits.max_size, self.cap) = (size, None);
        }
        self.limits.max_delay_ns = max_delay_ns.unwrap_or(self.limits.max_delay_ns);
        self.limits.hold = hold.unwrap_or(self.limits.hold);
    }

    /// Size that was learned from batches that ran out of memory.
    pub fn cap(&self) -> Option<usize> {
        self.cap
    }

    /// Records an arrival.
    pub fn arrival(&mut self, now_ns: u64) {
        if self.limits.hold {
            self.returns.arrival(now_ns);
        }
    }

    /// Records the cut of a batch.
    pub fn started(&mut self, now_ns: u64) {
        self.last_start_ns = Some(now_ns);
        self.returns.cut();
    }

    /// Returns true if instances start in turns: none starts while another one waits for the GIL.
    pub fn takes_turns(&self) -> bool {
        self.limits.max_duration_ns.is_some() && self.limits.instances > 1
    }

    /// Records the start of a batch whose instance waited for the GIL.
    pub fn entered(&mut self, now_ns: u64) {
        self.last_start_ns = Some(now_ns);
    }

    /// Duration that counts for the cost of a batch if several instances computed at once.
    ///
    /// Handlers that hold the GIL wait for each other, so each one's wall time grows with their number. Together they
    /// finish a batch in a fraction of that time.
    pub fn own_ns(&self, duration_ns: u64, computing: usize) -> u64 {
        if self.limits.max_duration_ns.is_some() { duration_ns / computing.max(1) as u64 } else { duration_ns }
    }

    /// Records a batch. `units` are its rows, or its cost if rows have a cost.
    pub fn answered(&mut self, now_ns: u64, requests: usize, units: u64, duration_ns: u64) {
        self.cost.observe(units, duration_ns);
        self.requests_a_batch += 0.1 * (requests as f64 - self.requests_a_batch);
        if self.limits.hold {
            self.returns.answered(now_ns, requests, self.cost.fixed_ns());
        }
    }

    /// Returns true if batches are so short that the wake-up time of a sleeping thread would show.
    ///
    /// Only while clients come nearly one by one: with more of them, the wake-up time gathers a batch.
    pub fn is_fast(&self) -> bool {
        self.requests_a_batch <= FEW_REQUESTS && (1..FAST_NS).contains(&self.cost.fixed_ns())
    }

    /// Earliest time at which `rows` waiting rows are answered, in nanoseconds from now; 0 if not known yet.
    pub fn at_best_ns(&self, rows: usize) -> u64 {
        at_best_ns(rows, self.largest(), self.limits.instances, &self.cost)
    }

    /// Time before which another instance should not start, with several instances.
    fn staggered_start_ns(&self, now_ns: u64, view: &View) -> Option<u64> {
        if self.limits.instances < 2 || view.busy == 0 {
            return None;
        }
        // For short batches waking a thread costs more than it saves, so the instance that computes takes the next one,
        // too. With room for one row the gap doubles: a batch that is a little late still finishes sooner.
        let keep = |most_ns| if self.cost.batch_ns(1) <= most_ns { most_ns.saturating_mul(2) } else { most_ns };
        let gap = self.limits.max_duration_ns.map_or(self.cost.fixed_ns() / self.limits.instances as u64, keep);
        let gap = gap.min(MAX_STAGGER_NS);
        // The stagger may use a tenth of the time to a deadline.
        let gap = match view.deadline_ns {
            Some(deadline) => gap.min(deadline.saturating_sub(now_ns) / 10),
            None => gap,
        };
        // A second instance in line for the GIL would only make them alternate, batch by batch.
        let last_ns = if view.entering > 0 { now_ns } else { self.last_start_ns? };
        Some(last_ns.saturating_add(gap))
    }
}

/// Decides whether to cut a batch now, or how long to wait.
pub fn decide(now_ns: u64, state: &State, view: &View) -> Decision {
    let limits = &state.limits;
    if view.requests == 0 {
        return Decision::Wait { until_ns: None, requests: 1 };
    }
    let largest = state.largest();
    let all = view.rows.min(largest).max(1);
    let staggered_ns = state.staggered_start_ns(now_ns, view).filter(|&start_ns| start_ns > now_ns);
    if let Some(decision) = decide_full(state, view, staggered_ns) {
        return decision;
    }
    if view.draining {
        return Decision::Cut(all, Reason::Drain);
    }
    let reach = limits.target_ns.map(|target| reach(target, &state.cost, view));
    if let Some(Reach { most_rows, .. }) = reach.filter(|reach| reach.most_rows < all) {
        return Decision::Cut(most_rows, Reason::Target);
    }
    let (time_ns, requests) = match wait_for_more(now_ns, state, view, staggered_ns) {
        Ok(wait) => wait,
        Err(decision) => return decision,
    };
    // A request with a deadline needs time for its batch: twice the expected duration.
    let takes = state.cost.batch_ns(view.cost.unwrap_or(all as u64)).saturating_mul(2);
    let latest = view.deadline_ns.map_or(u64::MAX, |deadline| deadline.saturating_sub(takes));
    let in_reach = reach.map_or(u64::MAX, |reach| reach.latest_ns);
    if latest.min(in_reach) <= now_ns {
        let reason = if latest <= now_ns { Reason::Deadline } else { Reason::Target };
        return Decision::Cut(all, reason);
    }
    // A larger batch takes longer and has to start earlier, so each arrival changes the decision.
    let requests = if reach.is_some() { requests.min(view.requests + 1) } else { requests };
    Decision::Wait { until_ns: Some(time_ns.min(latest).min(in_reach)), requests }
}

/// Decides for a full batch: the maximum of rows, or of their cost. `None` if there is room for more.
fn decide_full(state: &State, view: &View, staggered_ns: Option<u64>) -> Option<Decision> {
    let largest = state.largest();
    if view.rows < largest {
        return view.is_cost_full.then_some(Decision::Cut(largest, Reason::Cost));
    }
    if let Some(start_ns) = staggered_ns.filter(|_| state.takes_turns() && !view.draining) {
        return Some(Decision::Wait { until_ns: Some(start_ns), requests: usize::MAX });
    }
    let reason = if largest < state.limits.max_size { Reason::Duration } else { Reason::Full };
    Some(Decision::Cut(largest, reason))
}

/// The wait for more requests: until when, and for how many. It is the longest of hold, stagger and `max_delay`.
///
/// # Errors
/// The decision to cut, if there is nothing to wait for.
fn wait_for_more(now_ns: u64, state: &State, view: &View, staggered_ns: Option<u64>) -> Result<(u64, usize), Decision> {
    let (limits, largest) = (&state.limits, state.largest());
    let mut wait: Option<(u64, usize)> = None;
    let mut until = |time_ns: u64, requests: usize| {
        if time_ns > now_ns {
            let (time, count) = wait.get_or_insert((time_ns, requests));
            (*time, *count) = ((*time).max(time_ns), (*count).max(requests));
        }
    };
    if let Some(hold) = state.returns.hold(now_ns).filter(|_| limits.hold) {
        until(hold.until_ns, view.requests + hold.missing);
    }
    if let Some(start_ns) = staggered_ns {
        until(start_ns, view.requests + largest.saturating_sub(view.rows));
    }
    if limits.max_delay_ns > 0 {
        let target = limits.preferred_sizes.last().copied().unwrap_or(largest).min(largest);
        if view.rows >= target {
            return Err(Decision::Cut(target, Reason::Preferred));
        }
        until(view.oldest_ns.saturating_add(limits.max_delay_ns), view.requests + target.saturating_sub(view.rows));
    }
    let all = view.rows.min(largest).max(1);
    wait.ok_or_else(|| Decision::Cut(cut_size(limits, all), wait_ended(now_ns, state)))
}

/// Largest preferred size that fits. The other rows wait for the next batch.
fn cut_size(limits: &Limits, all: usize) -> usize {
    limits.preferred_sizes.iter().rev().copied().find(|&size| size <= all).unwrap_or(all)
}

/// Reason for a cut after the wait.
fn wait_ended(now_ns: u64, state: &State) -> Reason {
    if state.limits.max_delay_ns > 0 {
        Reason::Delay
    } else if state.returns.all_back() {
        Reason::Returned
    } else if state.returns.expired(now_ns) {
        Reason::HoldExpired
    } else {
        Reason::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_after(batches: usize, requests: usize, duration_ns: u64) -> State {
        let mut state = State::new(None, 1);
        (0..batches as u64).for_each(|batch| state.answered(batch * 1_000_000, requests, requests as u64, duration_ns));
        state
    }

    #[test]
    fn model_is_fast_when_its_batches_are_short_and_small() {
        assert!(state_after(8, 1, 20_000).is_fast());
        assert!(!state_after(7, 1, 20_000).is_fast(), "too few batches to know");
        assert!(!state_after(8, 3, 20_000).is_fast(), "several clients");
        assert!(!state_after(8, 1, 200_000).is_fast(), "long batches");
    }

    #[test]
    fn max_delay_runs_from_the_oldest_request_and_prefers_sizes() {
        let batching = Batching { max_delay_ns: 1_000, preferred_sizes: vec![2, 4], hold: false, ..Batching::new(8) };
        let state = State::new(Some(&batching), 1);
        let view = |rows| View { rows, requests: rows, oldest_ns: 500, ..View::default() };
        assert_eq!(decide(600, &state, &view(3)), Decision::Wait { until_ns: Some(1_500), requests: 4 });
        assert_eq!(decide(600, &state, &view(5)), Decision::Cut(4, Reason::Preferred));
        assert_eq!(decide(1_500, &state, &view(3)), Decision::Cut(2, Reason::Delay));
        assert_eq!(decide(1_500, &state, &view(1)), Decision::Cut(1, Reason::Delay));
        assert_eq!(decide(600, &state, &View { draining: true, ..view(3) }), Decision::Cut(3, Reason::Drain));
    }

    #[test]
    fn too_large_batch_halves_the_next_batches() {
        let mut state = State::new(Some(&Batching::new(8)), 1);
        let view = View { rows: 8, requests: 8, ..View::default() };
        assert_eq!(decide(0, &state, &view), Decision::Cut(8, Reason::Full));
        state.too_large(7);
        assert_eq!((decide(0, &state, &view), state.cap()), (Decision::Cut(3, Reason::Full), Some(3)));
        // A larger batch that was cut earlier does not raise the limit.
        state.too_large(8);
        state.too_large(1);
        assert_eq!((decide(0, &state, &view), state.cap()), (Decision::Cut(1, Reason::Full), Some(1)));
    }

    #[test]
    fn max_duration_limits_the_rows_of_a_batch() {
        let batching = Batching { max_duration_ns: Some(1_000_000), hold: false, ..Batching::new(64) };
        let mut state = State::new(Some(&batching), 1);
        let view = View { rows: 40, requests: 40, ..View::default() };
        assert_eq!(decide(0, &state, &view), Decision::Cut(1, Reason::Duration), "nothing is known");
        (0..9).for_each(|batch| state.answered(batch, 1, 1, 50_000_000));
        assert_eq!(decide(0, &state, &view), Decision::Cut(1, Reason::Duration), "one may always go");
        (0..400).for_each(|batch| state.answered(batch, 1, 1, 30_000));
        let Decision::Cut(rows, Reason::Duration) = decide(0, &state, &view) else { panic!("it is bounded") };
        assert!((30..=33).contains(&rows), "{rows}");
        (0..400).for_each(|batch| state.answered(batch, 1, 1, 3_000));
        assert_eq!(decide(0, &state, &view), Decision::Cut(40, Reason::Idle));
    }

    #[test]
    fn short_batches_wait_for_the_instance_that_computes() {
        let batching = Batching { max_duration_ns: Some(1_000_000), hold: false, ..Batching::new(64) };
        let mut state = State::new(Some(&batching), 16);
        let view = View { rows: 2, requests: 2, oldest_ns: 10_000_000, busy: 1, ..View::default() };
        (0..99).for_each(|batch| state.answered(batch, 1, 1, 20_000));
        state.started(10_000_000);
        let wait = Decision::Wait { until_ns: Some(12_000_000), requests: 49 };
        assert_eq!(decide(10_100_000, &state, &view), wait);
        assert_eq!(decide(10_100_000, &state, &View { busy: 0, ..view }), Decision::Cut(2, Reason::Idle));
        assert_eq!(decide(12_000_000, &state, &view), Decision::Cut(2, Reason::Idle), "it takes longer than it should");
        assert_eq!((state.own_ns(1_600_000, 16), State::new(None, 16).own_ns(1_600_000, 16)), (100_000, 1_600_000));
        let many = View { rows: 60, requests: 60, ..view };
        let wait_for_turn = Decision::Wait { until_ns: Some(12_000_000), requests: usize::MAX };
        assert_eq!(decide(10_100_000, &state, &many), wait_for_turn, "as many as there are");
        assert_eq!(decide(12_000_000, &state, &many), Decision::Cut(49, Reason::Duration));
        let one_enters = View { busy: 2, entering: 1, ..many };
        let wait_for_entry = Decision::Wait { until_ns: Some(32_000_000), requests: usize::MAX };
        assert_eq!(decide(30_000_000, &state, &one_enters), wait_for_entry, "one in line is enough");
        state.entered(30_000_000);
        assert_eq!(
            decide(30_100_000, &state, &View { entering: 0, ..one_enters }),
            wait_for_entry,
            "it begins only now"
        );
        assert_eq!(decide(30_100_000, &state, &View { busy: 0, ..many }), Decision::Cut(49, Reason::Duration));
        (0..99).for_each(|batch| state.answered(batch, 1, 1, 50_000_000));
        let long = Decision::Wait { until_ns: Some(31_000_000), requests: usize::MAX };
        assert_eq!(decide(30_100_000, &state, &view), long, "one row takes longer, so no instance has to wait");
        let draining = View { draining: true, ..many };
        assert_eq!(decide(30_100_000, &state, &draining), Decision::Cut(1, Reason::Duration));
    }

    #[test]
    fn instances_start_staggered() {
        let mut state = State::new(Some(&Batching { hold: false, ..Batching::new(8) }), 2);
        (0..8).for_each(|batch| state.answered(batch, 1, 1, 1_000_000));
        state.started(10_000_000);
        let view = View { rows: 1, requests: 1, oldest_ns: 10_000_000, busy: 1, ..View::default() };
        assert_eq!(decide(10_100_000, &state, &view), Decision::Wait { until_ns: Some(10_500_000), requests: 8 });
        assert_eq!(decide(10_500_000, &state, &view), Decision::Cut(1, Reason::Idle));
        assert_eq!(decide(10_100_000, &state, &View { busy: 0, ..view }), Decision::Cut(1, Reason::Idle));
    }
}
