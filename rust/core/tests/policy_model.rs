//! The batch policy inside a discrete-event model of one queue: the server's own `decide`, a simulated
//! clock, and clients in a closed loop or with Poisson arrivals.

use penstock_core::{
    batch::policy::{Decision, Reason, State, View, decide},
    testing::batching,
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

const MS: f64 = 1e6;
const MAX_SIZE: usize = 32;

/// `S(n) = fixed + per_row * n`, in milliseconds.
#[derive(Clone, Copy)]
struct Cost {
    fixed: f64,
    per_row: f64,
}

const FIXED_DOMINATES: Cost = Cost { fixed: 5.0, per_row: 0.05 };
const ROWS_DOMINATE: Cost = Cost { fixed: 2.0, per_row: 1.0 };

#[derive(Clone, Copy, Default)]
struct Arrivals {
    closed: usize,
    think_mean: f64,
    /// Poisson arrivals a millisecond.
    rate: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(Option<usize>),
    Recheck,
    Done,
}

struct Outcome {
    rate: f64,
    mean_ms: f64,
    p99_ms: f64,
}

/// A small random generator with a fixed seed: the same arrivals in every run.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 / (1u64 << 53) as f64).max(1e-12)
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }
}

struct Model {
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    policy: State,
    waiting: VecDeque<(u64, Option<usize>)>,
    batch: Vec<(u64, Option<usize>)>,
    started: u64,
    latencies: Vec<f64>,
    reasons: Vec<Reason>,
}

impl Model {
    fn push(&mut self, at: f64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at as u64, self.count, event)));
    }

    fn dispatch(&mut self, now: u64, cost: Cost) {
        if !self.batch.is_empty() {
            return;
        }
        let view = View {
            rows: self.waiting.len(),
            requests: self.waiting.len(),
            oldest_ns: self.waiting.front().map_or(0, |first| first.0),
            ..View::default()
        };
        match decide(now, &self.policy, &view) {
            Decision::Cut(rows, reason) => {
                assert!(rows <= MAX_SIZE && rows <= self.waiting.len(), "a batch is never larger than it may be");
                self.batch = self.waiting.drain(..rows).collect();
                self.reasons.push(reason);
                self.policy.started(now);
                self.started = now;
                self.push(now as f64 + (cost.fixed + cost.per_row * rows as f64) * MS, Event::Done);
            }
            Decision::Wait { until_ns: Some(until), .. } => self.push(until as f64, Event::Recheck),
            Decision::Wait { until_ns: None, .. } => {}
        }
    }
}

fn run(arrivals: Arrivals, cost: Cost, hold: bool) -> Outcome {
    let milliseconds = 8000.0;
    let mut batching = batching(MAX_SIZE);
    batching.hold = hold;
    let mut model = Model {
        random: Random(7),
        events: BinaryHeap::new(),
        count: 0,
        policy: State::new(Some(&batching), 1),
        waiting: VecDeque::new(),
        batch: Vec::new(),
        started: 0,
        latencies: Vec::new(),
        reasons: Vec::new(),
    };
    for client in 0..arrivals.closed {
        let at = model.random.uniform() * 5.0 * MS;
        model.push(at, Event::Arrival(Some(client)));
    }
    if arrivals.rate > 0.0 {
        let at = model.random.exponential(1.0 / arrivals.rate) * MS;
        model.push(at, Event::Arrival(None));
    }
    while let Some(Reverse((now, _, event))) = model.events.pop() {
        if now as f64 > milliseconds * MS {
            break;
        }
        match event {
            Event::Recheck => {}
            Event::Arrival(client) => {
                model.policy.arrival(now);
                model.waiting.push_back((now, client));
                if client.is_none() {
                    let next = now as f64 + model.random.exponential(1.0 / arrivals.rate) * MS;
                    model.push(next, Event::Arrival(None));
                }
            }
            Event::Done => {
                let batch = std::mem::take(&mut model.batch);
                model.policy.answered(now, batch.len(), batch.len() as u64, now - model.started);
                for (arrived, client) in batch {
                    model.latencies.push((now - arrived) as f64 / MS);
                    if client.is_some() {
                        let back = now as f64 + (0.1 + model.random.exponential(arrivals.think_mean)) * MS;
                        model.push(back, Event::Arrival(client));
                    }
                }
            }
        }
        model.dispatch(now, cost);
    }
    let mut latencies = model.latencies;
    latencies.sort_by(f64::total_cmp);
    Outcome {
        rate: latencies.len() as f64 / milliseconds * 1000.0,
        mean_ms: latencies.iter().sum::<f64>() / latencies.len() as f64,
        p99_ms: latencies[latencies.len() * 99 / 100],
    }
}

fn closed(clients: usize) -> Arrivals {
    Arrivals { closed: clients, think_mean: 0.1, ..Arrivals::default() }
}

fn within(measured: f64, expected: f64, share: f64, label: &str) {
    assert!((measured - expected).abs() <= expected * share, "{label}: {measured:.1}, expected {expected} +- {share}");
}

#[test]
fn closed_loop_clients_reach_the_published_rates() {
    // rate with the learned hold, by the reference model
    for (clients, rate) in [(1, 190.0), (2, 366.0), (8, 1359.0), (16, 2520.0), (32, 4434.0), (64, 4844.0)] {
        let outcome = run(closed(clients), FIXED_DOMINATES, true);
        within(outcome.rate, rate, 0.06, &format!("{clients} callers"));
    }
}

#[test]
fn batches_fragment_without_the_hold() {
    within(run(closed(8), FIXED_DOMINATES, false).rate, 769.0, 0.06, "8 callers, no hold");
}

#[test]
fn single_client_never_waits() {
    let outcome = run(closed(1), FIXED_DOMINATES, true);
    within(outcome.mean_ms, 5.05, 0.01, "mean latency of one caller");
    within(outcome.p99_ms, 5.05, 0.02, "p99 of one caller");
}

#[test]
fn hold_does_not_wait_for_clients_with_think_time() {
    let arrivals = Arrivals { closed: 8, think_mean: 2.0, ..Arrivals::default() };
    let (with, without) = (run(arrivals, FIXED_DOMINATES, true), run(arrivals, FIXED_DOMINATES, false));
    within(with.rate, without.rate, 0.03, "8 callers with 2 ms of thought");
}

#[test]
fn hold_does_not_slow_poisson_arrivals() {
    for (cost, largest) in [(FIXED_DOMINATES, 6.6), (ROWS_DOMINATE, 34.0)] {
        for load in [0.02, 0.1, 0.3, 0.6, 0.9] {
            let arrivals = Arrivals { rate: load * 32.0 / largest, ..Arrivals::default() };
            let (with, without) = (run(arrivals, cost, true), run(arrivals, cost, false));
            assert!(with.mean_ms <= without.mean_ms * 1.02, "load {load}: {} > {}", with.mean_ms, without.mean_ms);
            assert!(with.p99_ms <= without.p99_ms * 1.05, "load {load}: {} > {}", with.p99_ms, without.p99_ms);
        }
    }
}

#[test]
fn hold_raises_the_rate_of_mixed_clients() {
    let arrivals = Arrivals { rate: 0.1 * 32.0 / 6.6, ..closed(16) };
    let (with, without) = (run(arrivals, FIXED_DOMINATES, true), run(arrivals, FIXED_DOMINATES, false));
    assert!(with.rate >= without.rate * 1.3, "{} against {}", with.rate, without.rate);
}
