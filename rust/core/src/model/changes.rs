//! Who is to know that a model came, or became ready, or stopped being so.

use std::{
    fmt,
    sync::{PoisonError, RwLock},
};

type Listener = Box<dyn Fn() + Send + Sync>;

/// Calls its listeners at each change of a table of models. They look for themselves what is new.
#[derive(Default)]
pub struct Changes {
    listeners: RwLock<Vec<Listener>>,
}

impl Changes {
    /// Adds a listener, which must return at once: it is called where the change is made.
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
