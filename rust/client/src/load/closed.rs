//! Closed loop: each lane sends its next request when it has the response to the last.

use super::{lane::Lane, phase::Phase, prepared::Endpoint};
use std::{sync::Arc, time::Instant};
use tokio::task::JoinSet;

/// Runs the phase. Returns the lanes, with their connections.
pub(super) async fn run(endpoint: &Arc<Endpoint>, phase: &Arc<Phase>, lanes: Vec<Lane>) -> Vec<Lane> {
    let mut tasks = JoinSet::new();
    for lane in lanes {
        tasks.spawn(send(Arc::clone(endpoint), Arc::clone(phase), lane));
    }
    tasks.join_all().await
}

async fn send(endpoint: Arc<Endpoint>, phase: Arc<Phase>, mut lane: Lane) -> Lane {
    let mut now = Instant::now();
    while phase.admits(now) {
        let start = now;
        let outcome = lane.call(&endpoint, start).await;
        now = Instant::now();
        phase.count(start, now, &outcome);
    }
    lane
}
