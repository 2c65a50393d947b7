//! Pool of a model's processes, which decides the model's readiness.

use penstock_core::{Model, Readiness, metrics::ModelMetrics};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};

/// The processes of a model.
#[derive(Debug, Default)]
pub struct ProcessPool {
    state: Mutex<State>,
    /// Set while a process is being replaced.
    replacing: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    alive: usize,
    /// The model, once it has been ready for the first time.
    model: Option<Weak<Model>>,
}

impl ProcessPool {
    /// Makes the model ready while at least one of its processes lives.
    pub fn track(&self, model: &Arc<Model>) {
        let mut state = self.lock();
        state.model = Some(Arc::downgrade(model));
        state.update_readiness();
    }

    /// Counts a process that has loaded.
    pub(crate) fn add(&self, metrics: &ModelMetrics) {
        let mut state = self.lock();
        state.alive += 1;
        metrics.processes(1);
        if state.alive == 1 {
            state.update_readiness();
        }
    }

    /// Counts a process that has ended. Returns whether it was the last one.
    pub(crate) fn remove(&self, metrics: &ModelMetrics) -> bool {
        let mut state = self.lock();
        state.alive = state.alive.saturating_sub(1);
        metrics.processes(-1);
        if state.alive == 0 {
            state.update_readiness();
        }
        state.alive == 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().alive == 0
    }

    /// Reserves the replacement of a process. Returns whether no other one is being replaced.
    pub(crate) fn begin_replacement(&self) -> bool {
        !self.replacing.swap(true, Ordering::Acquire)
    }

    pub(crate) fn end_replacement(&self) {
        self.replacing.store(false, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn update_readiness(&self) {
        let Some(model) = self.model.as_ref().and_then(Weak::upgrade) else { return };
        // Dropping the last reference to a model only closes its queue.
        model.set_readiness(if self.alive > 0 { Readiness::Ready } else { Readiness::Unavailable });
    }
}
