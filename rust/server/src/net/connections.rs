//! Open connections of one I/O thread: their timeouts, and the end of the server.
//!
//! One task checks all of them each second. The task of a connection only reads a flag when it is polled: a timer and
//! a channel for each connection would be polled with every request.

use super::{
    activity::{Activity, Timeouts},
    connection_age::Age,
};
use crate::settings::Limits;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};
use tokio::{sync::watch, time::sleep};

/// Interval between two checks of the timeouts.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Phase that the server sets for all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Serve requests.
    Serve,
    /// Serve requests, and let clients open other connections, which another process accepts.
    Retire,
    /// Finish running requests, then close.
    Drain,
    /// Close at once.
    Close,
}

/// Request to a connection's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Let the client open another connection: the next response is the last, or of HTTP/2 those to running requests.
    Retire = 1,
    /// Finish running requests, then close.
    Finish = 2,
    /// Close at once.
    Close = 3,
}

/// Open connections of one I/O thread.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    open: HashMap<u64, Entry>,
    /// All connections retire.
    retires: bool,
}

#[derive(Debug)]
struct Entry {
    watched: Arc<Watched>,
    timeouts: Timeouts,
    age: Age,
}

/// A connection, as its checks see it.
#[derive(Debug)]
struct Watched {
    activity: Arc<Activity>,
    /// A [`Signal`]; 0 for none.
    signal: AtomicU8,
    waker: OnceLock<Waker>,
}

/// Entry of an open connection, removed when it is dropped.
pub(crate) struct Watch<'a> {
    connections: &'a Connections,
    id: u64,
    watched: Arc<Watched>,
}

impl Connections {
    /// Adds a connection until the entry is dropped.
    pub(crate) fn watch(&self, activity: &Arc<Activity>) -> Watch<'_> {
        let mut table = self.lock();
        let signal = AtomicU8::new(if table.retires { Signal::Retire as u8 } else { 0 });
        let watched = Arc::new(Watched { activity: Arc::clone(activity), signal, waker: OnceLock::new() });
        let id = table.next_id;
        table.next_id += 1;
        let entry = Entry { watched: Arc::clone(&watched), timeouts: Timeouts::new(), age: Age::new() };
        table.open.insert(id, entry);
        Watch { connections: self, id, watched }
    }

    /// Checks the timeouts each second, and passes on the server's phase, until it is [`Lifecycle::Close`].
    pub(crate) async fn run(&self, limits: &Limits, mut lifecycle: watch::Receiver<Lifecycle>) {
        loop {
            tokio::select! {
                () = sleep(CHECK_INTERVAL) => self.close_overdue(limits),
                changed = lifecycle.changed() => {
                    let phase = if changed.is_err() { Lifecycle::Close } else { *lifecycle.borrow_and_update() };
                    match phase {
                        Lifecycle::Serve => {}
                        Lifecycle::Retire => self.retire_all(),
                        Lifecycle::Drain => self.finish_all(),
                        // The end of the thread's runtime drops the connections.
                        Lifecycle::Close => return,
                    }
                }
            }
        }
    }

    fn close_overdue(&self, limits: &Limits) {
        let mut table = self.lock();
        // Again, because a connection may not have had its first byte, which decides between HTTP/1.1 and HTTP/2.
        let retire = table.retires.then_some(Signal::Retire);
        for Entry { watched, timeouts, age } in table.open.values_mut() {
            let overdue = timeouts.overdue(&watched.activity, limits).then_some(Signal::Close);
            if let Some(signal) = overdue.or_else(|| age.check(limits)).or(retire) {
                watched.send(signal);
            }
        }
    }

    fn retire_all(&self) {
        let mut table = self.lock();
        table.retires = true;
        table.open.values().for_each(|entry| entry.watched.send(Signal::Retire));
    }

    fn finish_all(&self) {
        self.lock().open.values().for_each(|entry| entry.watched.send(Signal::Finish));
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn send(&self, signal: Signal) {
        self.signal.fetch_max(signal as u8, Ordering::AcqRel);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

impl Watch<'_> {
    /// Returns a signal that has come since the last call. The connection's task is woken for the next one.
    pub(crate) fn signal(&self, cx: &Context<'_>) -> Option<Signal> {
        // A task keeps its waker for its whole life.
        self.watched.waker.get_or_init(|| cx.waker().clone());
        if self.watched.signal.load(Ordering::Acquire) == 0 {
            return None;
        }
        match self.watched.signal.swap(0, Ordering::AcqRel) {
            0 => None,
            1 => Some(Signal::Retire),
            2 => Some(Signal::Finish),
            _ => Some(Signal::Close),
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.id);
    }
}
