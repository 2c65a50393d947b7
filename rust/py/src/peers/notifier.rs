//! `_core.Notifier`: reports to an event loop which of its calls to poll again, without the interpreter.

use crate::wakeup::Bell;
use pyo3::prelude::*;
use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Wake, Waker},
};

/// The tickets to poll again, for one event loop.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Notifier(Arc<Letters>);

#[derive(Debug)]
struct Letters {
    bell: Bell,
    tickets: Mutex<Vec<u64>>,
}

/// A waker that reports one ticket.
struct Knock {
    letters: Arc<Letters>,
    ticket: u64,
}

impl Wake for Knock {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.letters.tickets.lock().unwrap_or_else(PoisonError::into_inner).push(self.ticket);
        self.letters.bell.ring();
    }
}

impl Notifier {
    pub(super) fn waker(&self, ticket: u64) -> Waker {
        Waker::from(Arc::new(Knock { letters: Arc::clone(&self.0), ticket }))
    }
}

#[pymethods]
impl Notifier {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Arc::new(Letters { bell: Bell::new()?, tickets: Mutex::default() })))
    }

    /// The descriptor that the loop watches: readable when [`Notifier::take`] has tickets.
    fn fileno(&self) -> i32 {
        self.0.bell.fileno()
    }

    /// Takes the tickets reported since the last call.
    fn take(&self) -> Vec<u64> {
        self.0.bell.heard();
        std::mem::take(&mut self.0.tickets.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
