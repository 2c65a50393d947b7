//! Python stacks of all threads of a process, this one or another, without its interpreter.
//!
//! # Rationale
//! A process whose GIL is held for ever cannot answer, and other programs that print stacks need ptrace. So
//! `penstock._runtime.stacks` lets faulthandler handle a real-time signal: the handler writes the stacks to a memory
//! file, whichever thread holds the GIL. A reader finds the file in `/proc`, empties it, sends the signal and waits.
//!
//! # Limitations
//! The handler reads frames of threads that may run. Of this process the stacks are therefore written with the
//! interpreter, if it can be taken in time. CPython writes at most 100 threads with 100 frames each, and in builds
//! without the GIL only the thread that gets the signal.

use crate::{attach::try_attached, errors::startup};
use pyo3::prelude::*;

/// Returns the stacks of a process; raises `StartupError` where it has no handler or does not answer.
#[pyfunction]
pub(crate) fn stacks(py: Python<'_>, process: u32) -> PyResult<String> {
    crate::attach::detached(py, || of_process(process)).map_err(|problem| startup(py, "StartupError", &problem))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn of_process(_: u32) -> Result<String, String> {
    Err("stacks: this system has no memory files".to_owned())
}

#[cfg(target_os = "linux")]
pub(crate) use linux::of_process;

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::{
        fs::{self, File, OpenOptions, TryLockError},
        io::ErrorKind,
        os::{fd::AsRawFd as _, unix::fs::FileExt as _},
        path::{Path, PathBuf},
        process,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        thread,
        time::{Duration, Instant},
    };

    /// The target of the link of the memory file in `/proc/PID/fd`.
    const FILE: &str = "/memfd:penstock-stacks (deleted)";

    /// The time limit for the handler of the signal.
    const SIGNAL_TIMEOUT: Duration = Duration::from_millis(200);

    /// The time limit for taking the interpreter of this process.
    const ATTACH_TIMEOUT: Duration = Duration::from_millis(50);

    /// The interval of checks of the file.
    const POLL: Duration = Duration::from_millis(2);

    /// The time without a change of the file after which it is complete.
    const SETTLED: Duration = Duration::from_millis(20);

    /// The most bytes that are read: another process may have written anything.
    const MAX_BYTES: u64 = 2 << 20;

    /// Set while a thread waits for the interpreter of this process to write stacks.
    static ATTACHING: AtomicBool = AtomicBool::new(false);

    /// Returns the stacks of a process.
    ///
    /// # Errors
    /// It has no handler of the signal, or does not answer in time.
    pub(crate) fn of_process(process: u32) -> Result<String, String> {
        // The C library keeps the first real-time signals for itself.
        let signal = libc::SIGRTMIN() + 5;
        let is_own = process == process::id();
        let file = match find(process) {
            Ok(found) => found.filter(|_| catches(process, signal)),
            Err(ErrorKind::NotFound) => return Err(format!("stacks: there is no process {process}")),
            Err(_) => return Err(format!("stacks: process {process} belongs to another user")),
        };
        let Some(file) = file else {
            return Err(if is_own {
                format!("stacks: signal {signal} is used by the program")
            } else {
                format!("stacks: process {process} has not registered signal {signal}")
            });
        };
        read(process, signal, &file).unwrap_or_else(|error| Err(format!("stacks: process {process}: {error}")))
    }

    fn read(process: u32, signal: i32, path: &Path) -> std::io::Result<Result<String, String>> {
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        let end = Instant::now() + SIGNAL_TIMEOUT;
        // One reader at a time, also of other processes. The lock ends with the file.
        while let Err(TryLockError::WouldBlock) = file.try_lock() {
            if Instant::now() >= end {
                return Ok(Err(format!("stacks: another reader waits for those of process {process}")));
            }
            thread::sleep(POLL);
        }
        file.set_len(0)?;
        if process != process::id() || !write_attached(path) {
            file.set_len(0)?;
            send(process, signal)?;
            await_written(&file, Instant::now() + SIGNAL_TIMEOUT)?;
        }
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len().min(MAX_BYTES)).unwrap_or_default()];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        if bytes.is_empty() {
            let limit = SIGNAL_TIMEOUT.as_millis();
            let state = if is_stopped(process) { ", it is stopped" } else { "" };
            return Ok(Err(format!("stacks: process {process} did not answer within {limit} ms{state}")));
        }
        Ok(Ok(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Finds the memory file of a process.
    fn find(process: u32) -> Result<Option<PathBuf>, ErrorKind> {
        let entries = fs::read_dir(format!("/proc/{process}/fd")).map_err(|error| error.kind())?;
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(paths.find(|path| fs::read_link(path).is_ok_and(|target| target.as_os_str() == FILE)))
    }

    /// Returns whether a process handles a signal. Otherwise the signal would end it.
    fn catches(process: u32, signal: i32) -> bool {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
        caught >> (signal - 1) & 1 == 1
    }

    /// Returns whether a process is stopped by a signal or a debugger.
    fn is_stopped(process: u32) -> bool {
        let line = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        line.rsplit_once(')')
            .is_some_and(|(_, fields)| matches!(fields.trim_start().as_bytes().first(), Some(b'T' | b't')))
    }

    /// Writes the stacks of this process with the interpreter. Returns false if that cannot be taken in time.
    ///
    /// Another thread waits for it, at most one at a time.
    fn write_attached(path: &Path) -> bool {
        if ATTACHING.swap(true, Ordering::AcqRel) {
            return false;
        }
        let taken = Arc::new(AtomicBool::new(false));
        let (written, receiver) = mpsc::channel();
        let work = {
            // Opened anew: a copy would hold the reader's lock for as long as the interpreter is held.
            let (taken, file) = (Arc::clone(&taken), OpenOptions::new().append(true).open(path));
            move || {
                let write = |py: Python<'_>| -> PyResult<()> {
                    let file = file?;
                    if !taken.swap(true, Ordering::AcqRel) {
                        py.import("faulthandler")?.call_method1("dump_traceback", (file.as_raw_fd(), true))?;
                    }
                    Ok(())
                };
                let result = try_attached(write);
                ATTACHING.store(false, Ordering::Release);
                let _ = written.send(matches!(result, Some(Ok(()))));
            }
        };
        if thread::Builder::new().name("penstock-stacks".to_owned()).spawn(work).is_err() {
            ATTACHING.store(false, Ordering::Release);
            return false;
        }
        match receiver.recv_timeout(ATTACH_TIMEOUT) {
            Ok(is_written) => is_written,
            // It writes now, or will write nothing.
            Err(_) if taken.swap(true, Ordering::AcqRel) => receiver.recv_timeout(SIGNAL_TIMEOUT).unwrap_or(false),
            Err(_) => false,
        }
    }

    fn send(process: u32, signal: i32) -> std::io::Result<()> {
        let process = libc::pid_t::try_from(process).map_err(|_| ErrorKind::NotFound)?;
        // SAFETY: `kill` takes two numbers and touches no memory of this process.
        match unsafe { libc::kill(process, signal) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// Waits until the file is not empty and does not change.
    fn await_written(file: &File, end: Instant) -> std::io::Result<()> {
        let (mut length, mut changed) = (0, Instant::now());
        while Instant::now() < end && (length == 0 || changed.elapsed() < SETTLED) {
            thread::sleep(POLL);
            let now = file.metadata()?.len();
            if now != length {
                (length, changed) = (now, Instant::now());
            }
        }
        Ok(())
    }
}
