//! Open loop: requests start at scheduled times. Latency counts from these, also of requests that had to wait for others.

use super::{arrivals::Schedule, lane::Lane, phase::Phase, prepared::Endpoint, timer::Timer};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};

/// Delay from which a request is late.
const LATE: Duration = Duration::from_millis(1);
/// Longest sleep before the end of the run is checked.
const NAP: Duration = Duration::from_millis(20);

/// Scheduled requests that no lane has taken yet: permits of a semaphore, whose times are in a second copy of the
/// schedule. Their number needs no memory.
struct Due {
    permits: Semaphore,
    times: Mutex<Schedule>,
    /// Those that lanes have taken. A permit that is given to a waiting lane is lost if the semaphore closes before the
    /// lane runs, so permits alone are not the count.
    taken: AtomicU64,
}

/// Lanes, and the maximum of them.
pub(super) struct Lanes {
    pub(super) idle: Vec<Lane>,
    pub(super) most: usize,
    pub(super) timeout: Duration,
}

/// Runs the phase. Returns the lanes, with their connections.
///
/// # Errors
/// As of the system calls of the timer.
pub(super) async fn run(
    endpoint: &Arc<Endpoint>,
    phase: &Arc<Phase>,
    mut lanes: Lanes,
    mut schedule: Schedule,
) -> io::Result<Lanes> {
    let due =
        Arc::new(Due { permits: Semaphore::new(0), times: Mutex::new(schedule.clone()), taken: AtomicU64::new(0) });
    let timer = Timer::new()?;
    let mut tasks = JoinSet::new();
    let mut scheduled = 0;
    loop {
        let now = Instant::now();
        let mut count = 0;
        while schedule.peek().is_some_and(|at| at <= now) {
            schedule.take();
            count += 1;
        }
        scheduled += count as u64;
        due.permits.add_permits(count);
        // Those that no waiting lane has got.
        for _ in 0..due.permits.available_permits().min(lanes.most - tasks.len()) {
            let lane = lanes.idle.pop().unwrap_or_else(|| Lane::new(tasks.len(), lanes.timeout));
            tasks.spawn(send(Arc::clone(endpoint), Arc::clone(phase), Arc::clone(&due), lane));
        }
        let all_taken = scheduled == phase.limit() && due.taken.load(Ordering::Relaxed) == scheduled;
        if all_taken || phase.is_over(now) {
            break;
        }
        // A lane that frees itself takes the next permit without this loop.
        let wake = schedule.peek().or(phase.end).map_or(NAP, |at| at.saturating_duration_since(Instant::now()));
        timer.sleep(wake.min(NAP)).await?;
    }
    due.permits.close();
    lanes.idle.extend(tasks.join_all().await);
    phase.tally(|tally| tally.unsent(scheduled - due.taken.load(Ordering::Relaxed)));
    Ok(lanes)
}

async fn send(endpoint: Arc<Endpoint>, phase: Arc<Phase>, due: Arc<Due>, mut lane: Lane) -> Lane {
    while let Ok(permit) = due.permits.acquire().await {
        permit.forget();
        due.taken.fetch_add(1, Ordering::Relaxed);
        let at = due.times.lock().unwrap_or_else(PoisonError::into_inner).take();
        let now = Instant::now();
        // Each permit has a time.
        let Some(at) = at else { break };
        if phase.is_over(now) {
            phase.tally(|tally| tally.unsent(1));
            continue;
        }
        if now.saturating_duration_since(at) > LATE {
            phase.tally(super::tally::Tally::late);
        }
        let outcome = lane.call(&endpoint, now).await;
        phase.count(at, Instant::now(), &outcome);
    }
    lane
}
