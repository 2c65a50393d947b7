//! The batch policy's decision, which is taken with the queue locked.

use criterion::Criterion;
use penstock_core::{
    Batching,
    batch::policy::{State, View, decide},
    testing::batching,
};
use std::{hint::black_box, time::Duration};

const MILLISECOND_NS: u64 = 1_000_000;
const BATCH_NS: u64 = 5 * MILLISECOND_NS;

/// A policy that has seen callers come back at once, batch after batch, and the time of the last answer.
fn learned(batching: &Batching, instances: usize) -> (State, u64) {
    let mut state = State::new(Some(batching), instances);
    let mut now_ns = 0;
    for batch in 0..100 {
        state.started(now_ns);
        now_ns += BATCH_NS;
        let requests = 4 + batch % 5;
        state.answered(now_ns, requests, requests as u64, BATCH_NS + 50_000 * requests as u64);
        (0..requests).for_each(|_| state.arrival(now_ns));
    }
    (state, now_ns)
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    let waiting = |rows, now_ns| View { rows, requests: rows, oldest_ns: now_ns, ..View::default() };
    let cases = [
        ("nothing learned", State::new(Some(&batching(32)), 1), 0, 1),
        ("full batch", learned(&batching(32), 1).0, learned(&batching(32), 1).1, 32),
        ("returning callers", learned(&batching(32), 1).0, learned(&batching(32), 1).1 + 1, 1),
        ("four instances", learned(&batching(32), 4).0, learned(&batching(32), 4).1, 3),
    ];
    for (name, state, now_ns, rows) in cases {
        let view = View { busy: 1, ..waiting(rows, now_ns) };
        group.bench_function(name, |bencher| {
            bencher.iter(|| decide(black_box(now_ns), black_box(&state), black_box(&view)));
        });
    }
    group.finish();
}

fn learning(criterion: &mut Criterion) {
    let (state, start_ns) = learned(&batching(32), 1);
    criterion.bench_function("learn from a batch of 8", |bencher| {
        let (mut state, mut now_ns) = (state.clone(), start_ns);
        bencher.iter(|| {
            state.started(now_ns);
            now_ns += BATCH_NS;
            state.answered(now_ns, 8, 8, BATCH_NS);
            (0..8).for_each(|_| state.arrival(black_box(now_ns)));
        });
    });
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    decisions(&mut criterion);
    learning(&mut criterion);
    criterion.final_summary();
}
