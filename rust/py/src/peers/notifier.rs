//! `_core.Notifier`: reports to an event loop which of its calls to poll again, without the interpreter.

use crate::wakeup::LoopWakeup;
use pyo3::prelude::*;
use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Wake, Waker},
};

/// The tickets to poll again, for one event loop.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Notifier(Arc<Tickets>);

#[derive(Debug)]
struct Tickets {
    wakeup: LoopWakeup,
    tickets: Mutex<Vec<u64>>,
}

/// A waker that reports one ticket.
struct TicketWaker {
    shared: Arc<Tickets>,
    ticket: u64,
}

impl Wake for TicketWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.shared.tickets.lock().unwrap_or_else(PoisonError::into_inner).push(self.ticket);
        self.shared.wakeup.notify();
    }
}

impl Notifier {
    pub(super) fn waker(&self, ticket: u64) -> Waker {
        Waker::from(Arc::new(TicketWaker { shared: Arc::clone(&self.0), ticket }))
    }
}

#[pymethods]
impl Notifier {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Arc::new(Tickets { wakeup: LoopWakeup::new()?, tickets: Mutex::default() })))
    }

    /// The descriptor that the loop watches: readable when [`Notifier::take`] has tickets.
    fn fileno(&self) -> i32 {
        self.0.wakeup.fileno()
    }

    /// Takes the tickets reported since the last call.
    fn take(&self) -> Vec<u64> {
        self.0.wakeup.clear();
        std::mem::take(&mut self.0.tickets.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
