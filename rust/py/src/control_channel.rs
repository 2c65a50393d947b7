//! `_core.Listener`, `_core.ControlChannel` and `_core.InstanceChannel`: connections of processes that attach models.

use crate::{attach::detached, seconds::duration};
use penstock_process::ControlEvent;
use pyo3::{exceptions::PyEOFError, prelude::*, types::PyBytes};
use std::{
    os::fd::{AsFd as _, AsRawFd as _},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Listener for processes that attach models.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Listener(penstock_process::Listener);

/// Control channel between a server and a process that attaches models.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct ControlChannel(Arc<penstock_process::ControlChannel>);

/// Socket of an instance. It is empty after it was sent.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct InstanceChannel(Mutex<Option<penstock_process::InstanceChannel>>);

#[pymethods]
impl Listener {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths are extracted into owned ones")]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(Self(penstock_process::Listener::bind(&path)?))
    }

    fn accept(&self, py: Python<'_>, timeout: f64) -> PyResult<Option<ControlChannel>> {
        let timeout = duration(timeout).unwrap_or_default();
        Ok(detached(py, || self.0.accept(timeout))?.map(|line| ControlChannel(Arc::new(line))))
    }

    fn close(&self) {
        self.0.close();
    }
}

#[pymethods]
impl ControlChannel {
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "Python's paths are extracted into owned ones")]
    fn connect(path: PathBuf) -> PyResult<Self> {
        Ok(Self(Arc::new(penstock_process::ControlChannel::connect(&path)?)))
    }

    fn fileno(&self) -> i32 {
        self.0.as_fd().as_raw_fd()
    }

    fn watch_process(&self, process: i32) {
        self.0.watch_process(process);
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are extracted into owned vectors")]
    fn send(&self, py: Python<'_>, message: &[u8], channels: Vec<Py<InstanceChannel>>) -> PyResult<()> {
        let channels: Vec<_> = channels.iter().filter_map(|channel| channel.get().take()).collect();
        Ok(detached(py, || self.0.send(message, &channels))?)
    }

    #[pyo3(signature = (timeout = None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Vec<InstanceChannel>)>> {
        let timeout = timeout.map(|seconds| duration(seconds).unwrap_or(Duration::ZERO));
        match detached(py, || self.0.receive(timeout))? {
            ControlEvent::Message(message, channels) => {
                let channels = channels.into_iter().map(|channel| InstanceChannel(Mutex::new(Some(channel)))).collect();
                Ok(Some((PyBytes::new(py, &message), channels)))
            }
            ControlEvent::TimedOut => Ok(None),
            ControlEvent::Closed => Err(PyEOFError::new_err("the other end has hung up")),
        }
    }

    fn close(&self) {
        self.0.close();
    }
}

impl ControlChannel {
    /// The channel itself, for a thread without the interpreter.
    pub(crate) fn shared(&self) -> Arc<penstock_process::ControlChannel> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl InstanceChannel {
    #[staticmethod]
    fn pair() -> PyResult<(Self, Self)> {
        let (one, other) = penstock_process::InstanceChannel::pair()?;
        Ok((Self(Mutex::new(Some(one))), Self(Mutex::new(Some(other)))))
    }

    fn close(&self) {
        if let Some(channel) = self.take() {
            channel.close();
        }
    }
}

impl InstanceChannel {
    /// Takes the socket; `None` if it was sent.
    pub(super) fn take(&self) -> Option<penstock_process::InstanceChannel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Duplicates the socket for the thread that serves it. This one remains, to close the channel.
    pub(super) fn try_clone(&self) -> Option<penstock_process::InstanceChannel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.try_clone().ok()
    }
}
