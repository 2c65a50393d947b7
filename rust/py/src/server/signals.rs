//! `_core.Signals`: SIGINT and SIGTERM, counted and handled by a thread without the interpreter.
//!
//! # Rationale
//! Python calls signal handlers on the main thread, once it has the GIL, which a model's handler may hold for long. But
//! CPython writes the number of each signal to a socket at once (`signal.set_wakeup_fd`). The thread that reads it
//! refuses new requests at once, enforces the deadline of the drain, and ends the process if Python does not.
//!
//! # Limitations
//! The kernel merges equal signals that come before the first of them is delivered.

use super::{lifecycle::Server, model_host::CLOSE_TIMEOUT};
use crate::{control_channel::ControlChannel, exit, seconds::duration};
use pyo3::prelude::*;
use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::Shutdown,
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// The time that Python may take to get the GIL after the drain, or to end after a second signal.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// The interval of checks of the shutdown.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The time limit of a write to standard error, which may have no reader.
const PRINT_TIMEOUT: Duration = Duration::from_millis(250);

/// The exit status of a stop that finished all requests.
const FINISHED: i32 = 0;

/// The exit status of a stop that cut requests off.
const CUT_OFF: i32 = 3;

/// Handles signals until it is closed.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Signals {
    /// The end that Python writes to.
    outside: UnixStream,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The signals that end the process.
    numbers: Vec<u8>,
    count: AtomicU32,
    target: Mutex<Target>,
    closed: AtomicBool,
}

/// The target of a drain.
#[derive(Clone, Debug)]
enum Target {
    /// No server. The time that a start may take, where Python raises out of it.
    Nothing(Option<Duration>),
    Server {
        server: Arc<penstock_server::Server>,
        /// Set once Python has the GIL after the drain and closes the handlers.
        closing: Arc<AtomicBool>,
        timeout: Duration,
    },
    /// Models attached to the server of another process, and the message that makes it send no more requests.
    Attached { channel: Arc<penstock_process::ControlChannel>, message: Arc<[u8]>, timeout: Duration },
}

#[pymethods]
impl Signals {
    #[new]
    #[pyo3(signature = (numbers, start_timeout = None))]
    fn new(numbers: Vec<u8>, start_timeout: Option<f64>) -> PyResult<Self> {
        let (outside, inside) = UnixStream::pair()?;
        outside.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            numbers,
            count: AtomicU32::new(0),
            target: Mutex::new(Target::Nothing(start_timeout.map(|seconds| duration(seconds).unwrap_or_default()))),
            closed: AtomicBool::new(false),
        });
        let watched = Arc::clone(&shared);
        thread::Builder::new().name("penstock-signals".to_owned()).spawn(move || watch(&inside, &watched))?;
        Ok(Self { outside, shared })
    }

    /// The descriptor for `signal.set_wakeup_fd`.
    fn fileno(&self) -> i32 {
        self.outside.as_raw_fd()
    }

    /// The number of ending signals so far.
    #[getter]
    fn count(&self) -> u32 {
        self.shared.count.load(Ordering::Acquire)
    }

    /// Lets signals drain this server, which has started.
    fn set_server_target(&self, server: &Server, timeout: f64) {
        if let Some((server, closing)) = server.running() {
            let timeout = duration(timeout).unwrap_or_default();
            *self.shared.target() = Target::Server { server, closing, timeout };
        }
    }

    /// Lets a signal send this message, after which no more requests come.
    fn set_attached_target(&self, channel: &ControlChannel, message: &[u8], timeout: f64) {
        let timeout = duration(timeout).unwrap_or_default();
        *self.shared.target() = Target::Attached { channel: channel.shared(), message: message.into(), timeout };
    }

    /// Lets signals be counted only.
    fn clear_target(&self) {
        *self.shared.target() = Target::Nothing(None);
    }

    /// Acts as a signal does.
    fn trigger(&self) {
        if let Some(&number) = self.shared.numbers.first() {
            // A full socket has signals enough.
            let _ = (&self.outside).write(&[number]);
        }
    }

    /// Stops handling signals.
    fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        let _ = self.outside.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn target(&self) -> MutexGuard<'_, Target> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(inside: &UnixStream, shared: &Shared) {
    let (mut ending, mut came) = (None, [0; 64]);
    loop {
        if inside.set_read_timeout(ending.as_ref().map(|_| CHECK_INTERVAL)).is_err() {
            return;
        }
        let mut socket = inside;
        match socket.read(&mut came) {
            Ok(0) => return,
            Ok(count) => {
                let count = came[..count].iter().filter(|number| shared.numbers.contains(number)).count();
                shared.count.fetch_add(count as u32, Ordering::AcqRel);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
        if shared.closed.load(Ordering::Acquire) {
            return;
        }
        let count = shared.count.load(Ordering::Acquire);
        if count > 0 {
            ending.get_or_insert_with(ShutdownProgress::new).advance(shared, count);
        }
    }
}

/// The progress of a shutdown.
struct ShutdownProgress {
    began: Instant,
    /// The time of a second signal.
    second_signal: Option<Instant>,
    /// The time at which the drain passed its deadline.
    late: Option<Instant>,
    /// The time at which the drain was over.
    drained: Option<Instant>,
    /// The time at which Python began to close the handlers.
    closing: Option<Instant>,
    /// The number of signals that the server has handled.
    reported: u32,
}

impl ShutdownProgress {
    fn new() -> Self {
        Self { began: Instant::now(), second_signal: None, late: None, drained: None, closing: None, reported: 0 }
    }

    fn advance(&mut self, shared: &Shared, count: u32) {
        let now = Instant::now();
        if count > 1 {
            self.second_signal.get_or_insert(now);
        }
        let target = shared.target().clone();
        let until = match &target {
            Target::Server { server, closing, timeout } => self.stop(server, closing, *timeout, now),
            Target::Attached { channel, message, timeout } => {
                if self.reported == 0 {
                    self.reported = 1;
                    // A server that is gone sends no more requests either.
                    let _ = channel.send(message, &[]);
                }
                Some(self.second_signal.unwrap_or(self.began + *timeout) + GRACE_PERIOD)
            }
            // Models load, and Python raises out of it.
            Target::Nothing(within) => within.map(|within| match self.second_signal {
                // There is nothing to drain.
                Some(at) => at,
                None => self.began + within + CLOSE_TIMEOUT + GRACE_PERIOD,
            }),
        };
        if until.is_some_and(|until| now >= until) {
            end(&target);
        }
    }

    /// Stops the server. Returns the time limit for Python to end.
    fn stop(
        &mut self,
        server: &Arc<penstock_server::Server>,
        closing: &AtomicBool,
        timeout: Duration,
        now: Instant,
    ) -> Option<Instant> {
        let signals = if self.second_signal.is_some() { 2 } else { 1 };
        if self.reported < signals {
            self.reported = signals;
            server.begin_drain(if signals == 1 { timeout } else { Duration::ZERO });
        }
        server.advance_drain();
        if self.late.is_none() && server.is_late() {
            self.late = Some(now);
            let server = Arc::clone(server);
            // Python may not have started the drain. Without this thread, waiting requests get no error.
            let _ = thread::Builder::new().name("penstock-drain".to_owned()).spawn(move || {
                server.drain(Duration::ZERO);
            });
        }
        if server.cut_off().is_some() {
            self.drained.get_or_insert(now);
        }
        if closing.load(Ordering::Acquire) {
            self.closing.get_or_insert(now);
        }
        match *self {
            Self { second_signal: Some(at), .. } => Some(at + GRACE_PERIOD),
            // The instances close first, then the repository, with the same limit.
            Self { closing: Some(at), .. } => Some(at + 2 * CLOSE_TIMEOUT + GRACE_PERIOD),
            Self { drained: Some(at), .. } => Some(at + GRACE_PERIOD),
            Self { late: Some(at), .. } => Some(at + CLOSE_TIMEOUT),
            _ => None,
        }
    }
}

/// Ends the process, and prints the requests that this cuts off.
fn end(target: &Target) -> ! {
    let unfinished = || "requests that have not finished".to_owned();
    let cut = match target {
        Target::Nothing(_) => String::new(),
        Target::Server { server, .. } => server.cut_off().map_or_else(unfinished, |names| names.join(", ")),
        Target::Attached { .. } => unfinished(),
    };
    let mut lines = "penstock: left without waiting for what holds the interpreter\n".to_owned();
    if !cut.is_empty() {
        lines += &format!("penstock: cut off: {cut}\n");
    }
    let (done, printed) = mpsc::channel();
    let print = move || {
        let _ = std::io::stderr().write_all(lines.as_bytes());
        let _ = done.send(());
    };
    if thread::Builder::new().spawn(print).is_ok() {
        let _ = printed.recv_timeout(PRINT_TIMEOUT);
    }
    exit::at_once(if cut.is_empty() { FINISHED } else { CUT_OFF })
}
