//! Listeners for changes of the model table.

use std::{
    fmt,
    sync::{PoisonError, RwLock},
};

type Listener = Box<dyn Fn() + Send + Sync>;

/// Calls its listeners at each change of the table: a model was added, removed, or changed its readiness.
#[derive(Default)]
pub struct Changes {
    listeners: RwLock<Vec<Listener>>,
}

impl Changes {
    /// Adds a listener. It must return at once, because it runs where the change is made.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    pub(crate) fn notify(&self) {
        self.listeners.read().unwrap_or_else(PoisonError::into_inner).iter().for_each(|listener| listener());
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}
