//! Staggered starts of several instances, in a simulation.

#[path = "simulation/poisson.rs"]
mod simulation;

use penstock_core::{Batching, batch::policy::State, testing::batching};
use simulation::{Cost, MAX_SIZE, Outcome};

/// `staggers`: the policy gets the real number of instances. The hold does not depend on it.
fn run(cost: Cost, instances: usize, load: f64, staggers: bool) -> Outcome {
    let batching = Batching { hold: false, ..batching(MAX_SIZE) };
    simulation::run(cost, instances, load, State::new(Some(&batching), if staggers { instances } else { 1 }))
}

#[test]
fn stagger_lowers_latency_of_four_instances_with_high_fixed_cost() {
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
fn stagger_never_adds_much_latency() {
    for cost in [Cost(5.0, 0.1), Cost(4.0, 0.5), Cost(2.0, 1.0)] {
        for load in [0.02, 0.1, 0.3, 0.6, 0.9] {
            for instances in [2, 4, 8] {
                let (with, without) = (run(cost, instances, load, true), run(cost, instances, load, false));
                let label = format!("{}+{}n, {instances} instances, load {load}", cost.0, cost.1);
                let apart = (cost.0 / instances as f64).min(2.0) * 1.1;
                assert!(with.mean_ms < without.mean_ms * 1.06, "{label}: {} against {}", with.mean_ms, without.mean_ms);
                // A delayed start may join two batches of one row.
                let worse = with.p99_ms - without.p99_ms * 1.05;
                assert!(worse < apart + cost.1, "{label}: {} against {}", with.p99_ms, without.p99_ms);
                // With all instances idle, no request waits for longer than one stagger interval.
                assert!(with.most_wait_ms <= apart, "{label}: {} > {apart}", with.most_wait_ms);
            }
        }
    }
}
