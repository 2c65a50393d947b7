//! Several instances inside a discrete-event model: the server's own `decide`, a simulated clock, Poisson arrivals.

use penstock_core::batch::policy::{Decision, State, View, decide};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// The most rows in a batch.
pub(crate) const MAX_SIZE: usize = 32;
const ARRIVALS: usize = 15_000;

/// The cost of a batch: a fixed part and a part per row, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Cost(pub(crate) f64, pub(crate) f64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Look,
    Done(usize),
}

/// Latencies of requests, and their waits while no instance computed.
pub(crate) struct Outcome {
    pub(crate) mean_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) most_wait_ms: f64,
}

/// Simulates `instances` at a share of their capacity.
pub(crate) fn run(Cost(fixed, per_row): Cost, instances: usize, load: f64, mut policy: State) -> Outcome {
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
    assert_eq!(latencies.len(), ARRIVALS, "not all requests completed");
    latencies.sort_by(f64::total_cmp);
    let mean_ms = latencies.iter().sum::<f64>() / ARRIVALS as f64;
    Outcome { mean_ms, p99_ms: latencies[ARRIVALS * 99 / 100], most_wait_ms }
}
