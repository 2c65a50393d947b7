//! Several instances inside a discrete-event model: the server's own `decide`, a simulated clock, Poisson arrivals.

use penstock_core::{
    Batching,
    batch::policy::{Decision, State, View, decide},
    testing::batching,
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

const MAX_SIZE: usize = 32;
const ARRIVALS: usize = 15_000;

/// What a batch costs: a fixed part, and one for each row, in milliseconds.
#[derive(Clone, Copy)]
struct Cost(f64, f64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Look,
    Done(usize),
}

#[derive(Default)]
struct Outcome {
    mean_ms: f64,
    p99_ms: f64,
    most_wait_ms: f64,
}

/// Runs `instances` at a share of what they can do. `staggers` is whether the policy knows that there are several.
fn run(Cost(fixed, per_row): Cost, instances: usize, load: f64, staggers: bool) -> Outcome {
    // The hold is a matter of its own.
    let batching = Batching { hold: false, ..batching(MAX_SIZE) };
    let mut policy = State::new(Some(&batching), if staggers { instances } else { 1 });
    let full = MAX_SIZE as f64;
    let rate = load * instances as f64 * full / (fixed + per_row * full);
    let mut random = 7_u64;
    let mut gap = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = ((random >> 11) as f64 / (1_u64 << 53) as f64).max(1e-12);
        (-uniform.ln() / rate * 1e6) as u64
    };
    let mut events = BinaryHeap::from([Reverse((gap(), Event::Arrival))]);
    let (mut waiting, mut arrived) = (VecDeque::new(), 0);
    let mut batches: Vec<Option<(u64, Vec<u64>)>> = vec![None; instances];
    let (mut latencies, mut most_wait_ms) = (Vec::new(), 0.0_f64);
    while let Some(Reverse((now, event))) = events.pop() {
        match event {
            Event::Look => {}
            Event::Arrival => {
                policy.arrival(now);
                waiting.push_back(now);
                arrived += 1;
                if arrived < ARRIVALS {
                    events.push(Reverse((now + gap(), Event::Arrival)));
                }
            }
            Event::Done(instance) => {
                let (started, batch) = batches[instance].take().expect("it computed");
                policy.answered(now, batch.len(), batch.len() as u64, now - started);
                latencies.extend(batch.iter().map(|arrived| (now - arrived) as f64 / 1e6));
            }
        }
        while let Some(free) = batches.iter().position(Option::is_none) {
            let busy = batches.iter().flatten().count();
            let oldest_ns = waiting.front().copied().unwrap_or_default();
            let view = View { rows: waiting.len(), requests: waiting.len(), oldest_ns, busy, ..View::default() };
            match decide(now, &policy, &view) {
                Decision::Cut(rows, _) => {
                    policy.started(now);
                    if busy == 0 {
                        most_wait_ms = most_wait_ms.max((now - oldest_ns) as f64 / 1e6);
                    }
                    let batch: Vec<u64> = waiting.drain(..rows).collect();
                    let takes = (fixed + per_row * rows as f64) * 1e6;
                    events.push(Reverse((now + takes as u64, Event::Done(free))));
                    batches[free] = Some((now, batch));
                }
                Decision::Wait { until_ns, .. } => {
                    events.extend(until_ns.map(|until| Reverse((until.max(now + 1), Event::Look))));
                    break;
                }
            }
        }
    }
    assert_eq!(latencies.len(), ARRIVALS, "all are answered");
    latencies.sort_by(f64::total_cmp);
    let mean_ms = latencies.iter().sum::<f64>() / ARRIVALS as f64;
    Outcome { mean_ms, p99_ms: latencies[ARRIVALS * 99 / 100], most_wait_ms }
}

#[test]
fn four_instances_gain_where_the_fixed_cost_dominates() {
    let cost = Cost(5.0, 0.1);
    // By the reference model, means without and with the stagger: 8.0 and 6.7 at 0.3, 9.2 and 8.8 at 0.6.
    for (load, gain) in [(0.3, 0.90), (0.6, 0.99)] {
        let (with, without) = (run(cost, 4, load, true), run(cost, 4, load, false));
        assert!(with.mean_ms < without.mean_ms * gain, "load {load}: {} against {}", with.mean_ms, without.mean_ms);
        assert!(with.p99_ms < without.p99_ms, "load {load}: p99 {} against {}", with.p99_ms, without.p99_ms);
    }
    let few = run(cost, 4, 0.02, true);
    assert!(few.mean_ms < 5.5, "rare callers hardly notice: {}", few.mean_ms);
}

#[test]
fn it_never_costs_much() {
    for cost in [Cost(5.0, 0.1), Cost(4.0, 0.5), Cost(2.0, 1.0)] {
        for load in [0.02, 0.1, 0.3, 0.6, 0.9] {
            for instances in [2, 4, 8] {
                let (with, without) = (run(cost, instances, load, true), run(cost, instances, load, false));
                let told = format!("{}+{}n, {instances} instances, load {load}", cost.0, cost.1);
                let apart = (cost.0 / instances as f64).min(2.0) * 1.1;
                assert!(with.mean_ms < without.mean_ms * 1.06, "{told}: {} against {}", with.mean_ms, without.mean_ms);
                // A start that waits may make a batch of two out of two of one.
                let worse = with.p99_ms - without.p99_ms * 1.05;
                assert!(worse < apart + cost.1, "{told}: {} against {}", with.p99_ms, without.p99_ms);
                // With all instances idle, nothing waits for longer than a start apart.
                assert!(with.most_wait_ms <= apart, "{told}: {} > {apart}", with.most_wait_ms);
            }
        }
    }
}
