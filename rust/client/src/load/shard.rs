//! A thread of a run: its runtime, lanes and phases.

use super::{
    arrivals::{Part, Schedule, Window},
    closed,
    lane::Lane,
    open::{self, Lanes},
    phase::Phase,
    plan::{Load, LoadPlan, share},
    prepared::Endpoint,
    run::{Control, Go},
};
use std::{
    io, mem,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tokio::{runtime::Builder, sync::watch, task::JoinSet};

/// One thread's part of a run.
pub(super) struct Shard {
    pub(super) part: Part,
    pub(super) plan: Arc<LoadPlan>,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) control: Arc<Control>,
    /// The phase under way, or the last one.
    pub(super) phase: Mutex<Arc<Phase>>,
}

impl Shard {
    /// Runs the warm-up, waits, and runs the measurement, on the calling thread. Returns the time of its last response.
    ///
    /// # Errors
    /// The runtime or the timer cannot be created.
    pub(super) fn run(&self, mut go: watch::Receiver<Go>) -> io::Result<Instant> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut lanes = self.lanes().await;
            if !self.plan.warmup.is_zero() {
                let start = Instant::now();
                let phase = self.begin(Phase::new(start, Some(start + self.plan.warmup), None, self.control.stopped()));
                lanes = self.load(&phase, lanes).await?;
            }
            self.control.warm();
            let Ok(Go::Measure(start)) = go.wait_for(|go| matches!(go, Go::Measure(_))).await.map(|go| *go) else {
                return Ok(Instant::now());
            };
            let end = self.plan.duration.and_then(|duration| start.checked_add(duration));
            let limit = self.plan.limit.map(|limit| share(limit, self.part.index, self.part.threads));
            let phase = self.begin(Phase::new(start, end, limit, self.control.stopped()));
            self.load(&phase, lanes).await?;
            Ok(Instant::now())
        })
    }

    /// The phase under way, or the last one.
    pub(super) fn current(&self) -> Arc<Phase> {
        Arc::clone(&self.phase.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin(&self, phase: Phase) -> Arc<Phase> {
        let phase = Arc::new(phase);
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&phase);
        phase
    }

    /// The lanes of the thread; of a closed loop connected, so that no request waits for that.
    async fn lanes(&self) -> Lanes {
        let timeout = self.plan.timeout;
        let part = |total: usize| share(total as u64, self.part.index, self.part.threads) as usize;
        match self.plan.load {
            Load::Open(load) => Lanes { idle: Vec::new(), most: part(load.max_in_flight), timeout },
            Load::Closed { concurrency } => {
                let mut connecting = JoinSet::new();
                for index in 0..part(concurrency) {
                    let endpoint = Arc::clone(&self.endpoint);
                    connecting.spawn(async move {
                        let mut lane = Lane::new(index, timeout);
                        lane.connect(&endpoint).await;
                        lane
                    });
                }
                Lanes { idle: connecting.join_all().await, most: part(concurrency), timeout }
            }
        }
    }

    async fn load(&self, phase: &Arc<Phase>, mut lanes: Lanes) -> io::Result<Lanes> {
        match self.plan.load {
            Load::Closed { .. } => {
                let idle = mem::take(&mut lanes.idle);
                lanes.idle = closed::run(&self.endpoint, phase, idle).await;
                Ok(lanes)
            }
            Load::Open(load) => {
                let window = Window { start: phase.start, end: phase.end, limit: phase.limit() };
                let schedule = Schedule::new(&load, self.part, window);
                open::run(&self.endpoint, phase, lanes, schedule).await
            }
        }
    }
}
