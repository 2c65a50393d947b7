//! The processes of one model together: its readiness follows theirs.

use penstock_core::{Model, Readiness, metrics::ModelMetrics};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};

/// The processes of a model.
#[derive(Debug, Default)]
pub struct ProcessPool {
    state: Mutex<State>,
    /// Whether one of them is being replaced.
    replacing: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    alive: usize,
    /// The model, once it is ready for the first time.
    model: Option<Weak<Model>>,
}

impl ProcessPool {
    /// From now on the model is ready while one of its processes lives, and else it is not.
    pub fn open(&self, model: &Arc<Model>) {
        let mut state = self.lock();
        state.model = Some(Arc::downgrade(model));
        state.tell();
    }

    pub(crate) fn up(&self, metrics: &ModelMetrics) {
        let mut state = self.lock();
        state.alive += 1;
        metrics.processes(1);
        if state.alive == 1 {
            state.tell();
        }
    }

    /// One less. Whether that was the last.
    pub(crate) fn down(&self, metrics: &ModelMetrics) -> bool {
        let mut state = self.lock();
        state.alive = state.alive.saturating_sub(1);
        metrics.processes(-1);
        if state.alive == 0 {
            state.tell();
        }
        state.alive == 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().alive == 0
    }

    /// Whether a process may be replaced now: one at a time.
    pub(crate) fn begin_replacing(&self) -> bool {
        !self.replacing.swap(true, Ordering::Acquire)
    }

    pub(crate) fn end_replacing(&self) {
        self.replacing.store(false, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&self) {
        let Some(model) = self.model.as_ref().and_then(Weak::upgrade) else { return };
        // Dropping the last reference to a model is harmless here: it only closes its queue.
        model.set_readiness(if self.alive > 0 { Readiness::Ready } else { Readiness::Unavailable });
    }
}
