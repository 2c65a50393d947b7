//! A target on the latency, in a simulation.

#[path = "simulation/poisson.rs"]
mod simulation;

use penstock_core::{Batching, batch::policy::State, testing::batching};
use simulation::{Cost, MAX_SIZE, Outcome};

const MS: u64 = 1_000_000;

fn run(cost: Cost, load: f64, max_delay_ms: u64, target_ms: Option<u64>) -> Outcome {
    let target_ns = target_ms.map(|target| target * MS);
    let batching = Batching { max_delay_ns: max_delay_ms * MS, target_ns, ..batching(MAX_SIZE) };
    simulation::run(cost, 1, load, State::new(Some(&batching), 1))
}

#[test]
fn latency_target_shortens_an_excessive_max_delay() {
    let cost = Cost(5.0, 0.1);
    for load in [0.02, 0.1] {
        let (with, without) = (run(cost, load, 100, Some(25)), run(cost, load, 100, None));
        assert!(without.p99_ms > 50.0, "load {load}: {}", without.p99_ms);
        assert!(with.p99_ms <= 25.0, "load {load}: {}", with.p99_ms);
        assert!(with.most_wait_ms < 25.0 && without.most_wait_ms > 50.0, "load {load}: {}", with.most_wait_ms);
        assert!(with.mean_ms > run(cost, load, 0, None).mean_ms, "it still waits for company while it can");
    }
}

#[test]
fn latency_target_limits_batches_of_costly_rows() {
    let cost = Cost(2.0, 1.0);
    for (load, target) in [(0.3, 20), (0.5, 25), (0.6, 25)] {
        let (with, without) = (run(cost, load, 0, Some(target)), run(cost, load, 0, None));
        assert!(with.p99_ms <= target as f64, "load {load}: {} of {target}", with.p99_ms);
        assert!(with.p99_ms <= without.p99_ms * 1.1, "load {load}: {} against {}", with.p99_ms, without.p99_ms);
    }
}

#[test]
fn unreachable_latency_target_does_not_lower_throughput() {
    for cost in [Cost(2.0, 1.0), Cost(5.0, 0.1)] {
        for load in [0.6, 0.9, 0.97] {
            for target in [1, 5, 10, 20] {
                let (with, without) = (run(cost, load, 0, Some(target)), run(cost, load, 0, None));
                let label = format!("{}+{}n, load {load}, target {target}", cost.0, cost.1);
                assert!(with.mean_ms < without.mean_ms * 1.5, "{label}: {} against {}", with.mean_ms, without.mean_ms);
                assert!(with.p99_ms < without.p99_ms * 1.5, "{label}: {} against {}", with.p99_ms, without.p99_ms);
            }
        }
    }
}
