//! `_core.Door`, `_core.Line` and `_core.Channel`: how another process comes with models, and what is said.

use crate::{attach::detached, convert::parameters::duration};
use penstock_process::ControlEvent;
use pyo3::{exceptions::PyEOFError, prelude::*, types::PyBytes};
use std::{
    os::fd::{AsFd as _, AsRawFd as _},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Where processes come that attach models.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Door(penstock_process::Listener);

/// What a server and a process that attaches models say to each other.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Line(Arc<penstock_process::ControlChannel>);

/// The socket of an instance. Given away, it is empty.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Channel(Mutex<Option<penstock_process::InstanceChannel>>);

#[pymethods]
impl Door {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths are extracted into owned ones")]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(Self(penstock_process::Listener::bind(&path)?))
    }

    fn next(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<Line>> {
        let patience = duration(timeout).unwrap_or_default();
        Ok(detached(py, || self.0.accept(patience))?.map(|line| Line(Arc::new(line))))
    }

    fn close(&self) {
        self.0.close();
    }
}

#[pymethods]
impl Line {
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths are extracted into owned ones")]
    fn connect(path: PathBuf) -> PyResult<Self> {
        Ok(Self(Arc::new(penstock_process::ControlChannel::connect(&path)?)))
    }

    fn fileno(&self) -> i32 {
        self.0.as_fd().as_raw_fd()
    }

    fn watch(&self, process: i32) {
        self.0.watch_process(process);
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are extracted into owned vectors")]
    fn say(&self, py: Python<'_>, message: &[u8], channels: Vec<Py<Channel>>) -> PyResult<()> {
        let channels: Vec<_> = channels.iter().filter_map(|channel| channel.get().take()).collect();
        Ok(detached(py, || self.0.send(message, &channels))?)
    }

    #[pyo3(signature = (timeout = None))]
    fn hear<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Vec<Channel>)>> {
        let patience = timeout.map(|seconds| duration(seconds).unwrap_or(Duration::ZERO));
        match detached(py, || self.0.receive(patience))? {
            ControlEvent::Message(message, channels) => {
                let channels = channels.into_iter().map(|channel| Channel(Mutex::new(Some(channel)))).collect();
                Ok(Some((PyBytes::new(py, &message), channels)))
            }
            ControlEvent::TimedOut => Ok(None),
            ControlEvent::Closed => Err(PyEOFError::new_err("the other end has hung up")),
        }
    }

    fn hang_up(&self) {
        self.0.close();
    }
}

impl Line {
    /// The line itself, for a thread without the interpreter.
    pub(crate) fn shared(&self) -> Arc<penstock_process::ControlChannel> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl Channel {
    #[staticmethod]
    fn pair() -> PyResult<(Self, Self)> {
        let (one, other) = penstock_process::InstanceChannel::pair()?;
        Ok((Self(Mutex::new(Some(one))), Self(Mutex::new(Some(other)))))
    }

    fn hang_up(&self) {
        if let Some(channel) = self.take() {
            channel.close();
        }
    }
}

impl Channel {
    /// The end itself; `None` if it was given away.
    pub(super) fn take(&self) -> Option<penstock_process::InstanceChannel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The same end once more, for whoever serves it; this one stays to hang up on.
    pub(super) fn again(&self) -> Option<penstock_process::InstanceChannel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.try_clone().ok()
    }
}
