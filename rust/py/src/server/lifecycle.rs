//! `_core.Server`: start, wait and stop of a server with sockets.

use super::{
    addresses::Addresses,
    config::ServerConfig,
    description::{Description, description},
    model_host::{ModelHost, read_definitions},
    models::ModelRegistry,
    probe::ProbeThread,
};
use crate::{
    attach::{attached, detached},
    errors::startup,
    handler::{inline::attachable, load_result::SIGNALS_EVERY},
    seconds::duration,
};
use penstock_server::{Address, Config, Live, StallSettings, StartError};
use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyList};
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

#[derive(Debug)]
enum Stage {
    Made(Box<Config>),
    Running(Arc<penstock_server::Server>),
    Stopping(Arc<penstock_server::Server>),
    Stopped,
}

/// Server: listens, decodes, queues, batches, calls handlers and responds.
#[pyclass(frozen, weakref, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Server {
    host: Arc<ModelHost>,
    drain_timeout: Live<f64>,
    stage: Mutex<Stage>,
    addresses: Mutex<Addresses>,
    stopped: Mutex<bool>,
    ended: Condvar,
    /// Takes the interpreter again and again, with a `stall_timeout`.
    probe: Mutex<Option<ProbeThread>>,
    /// Set once the drain is over and a thread with the interpreter closes the handlers.
    closing: Arc<AtomicBool>,
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (definitions, config, described = None, handed_over = Vec::new()))]
    fn new(
        definitions: &Bound<'_, PyList>,
        config: &Bound<'_, PyAny>,
        described: Option<Description>,
        handed_over: Vec<(String, i32)>,
    ) -> PyResult<Self> {
        let config = ServerConfig(config);
        let py = definitions.py();
        let host = Arc::new(ModelHost::new(py, read_definitions(definitions)?, config.shared()?)?);
        let drain_timeout = config.drain_timeout()?.into();
        let control = config.takes_commands()?.then(|| host.control.clone());
        let description = described.map(description).unwrap_or_default();
        Ok(Self {
            host,
            drain_timeout,
            stage: Mutex::new(Stage::Made(Box::new(Config { control, description, ..config.listening(handed_over)? }))),
            addresses: Mutex::default(),
            stopped: Mutex::new(false),
            ended: Condvar::new(),
            probe: Mutex::default(),
            closing: Arc::default(),
        })
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let Stage::Made(config) = std::mem::replace(&mut *lock(&self.stage), Stage::Stopped) else {
            return Err(PyRuntimeError::new_err("a server starts once; make another one"));
        };
        let (registry, metrics) = (Arc::clone(&self.host.registry), Arc::clone(&self.host.metrics));
        let mut config = config;
        if self.host.has_inline() {
            config.io_thread_scope = attachable;
        }
        let stalls = config.stalls.clone();
        let started = detached(py, || penstock_server::Server::start(*config, registry, metrics));
        let server = started.map_err(|error| {
            let is_of_files = matches!(error, StartError::Tls(_) | StartError::Keys(_) | StartError::Audit(_));
            let kind = if is_of_files { "ConfigError" } else { "BindError" };
            startup(py, kind, &error.to_string())
        })?;
        let text = |address: Option<&Address>| address.map(ToString::to_string);
        *lock(&self.addresses) = Addresses {
            http: text(server.http_address()),
            grpc: text(server.grpc_address()),
            metrics: text(server.metrics_address()),
            admin: text(server.admin_address()),
            sockets: server.sockets().iter().map(|(address, socket)| (address.to_string(), *socket)).collect(),
        };
        if let Err(error) = self.host.load(py) {
            detached(py, || drop(server));
            self.host.close(py);
            self.end();
            return Err(error);
        }
        if let StallSettings { timeout: Some(timeout), interpreter: Some(probe) } = stalls {
            let (registry, metrics) = (Arc::clone(&self.host.registry), Arc::clone(&self.host.metrics));
            *lock(&self.probe) = ProbeThread::spawn(timeout, probe, registry, metrics).ok();
        }
        *lock(&self.stage) = Stage::Running(Arc::new(server));
        Ok(())
    }

    #[getter]
    fn http_address(&self) -> Option<String> {
        lock(&self.addresses).http.clone()
    }

    #[getter]
    fn grpc_address(&self) -> Option<String> {
        lock(&self.addresses).grpc.clone()
    }

    #[getter]
    fn metrics_address(&self) -> Option<String> {
        lock(&self.addresses).metrics.clone()
    }

    #[getter]
    fn admin_address(&self) -> Option<String> {
        lock(&self.addresses).admin.clone()
    }

    /// The listening sockets, until the server has stopped or handed them over.
    #[getter]
    fn sockets(&self) -> Vec<(String, i32)> {
        lock(&self.addresses).sockets.clone()
    }

    /// Serves requests, and accepts connections on inherited sockets too.
    fn set_ready(&self) {
        if let Some((server, _)) = self.running() {
            server.set_ready();
        }
    }

    /// Leaves the listening sockets to another process.
    fn hand_over(&self) {
        if let Some((server, _)) = self.running() {
            server.hand_over();
        }
    }

    /// True once no client is connected any more, after `hand_over`.
    fn is_deserted(&self) -> bool {
        self.running().is_none_or(|(server, _)| server.is_deserted())
    }

    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let until = timeout.map(|seconds| Instant::now() + duration(seconds).unwrap_or_default());
        loop {
            let left = until.map_or(SIGNALS_EVERY, |until| until.saturating_duration_since(Instant::now()));
            let stopped = detached(py, || {
                let stopped = lock(&self.stopped);
                let waited = self.ended.wait_timeout_while(stopped, left.min(SIGNALS_EVERY), |stopped| !*stopped);
                *waited.unwrap_or_else(PoisonError::into_inner).0
            });
            py.check_signals()?;
            if stopped || until.is_some_and(|until| Instant::now() >= until) {
                return Ok(stopped);
            }
        }
    }

    #[getter]
    fn models(&self) -> ModelRegistry {
        ModelRegistry(Arc::clone(&self.host))
    }

    /// Takes over the settings that may change while the server runs, and their description.
    fn change(&self, config: &Bound<'_, PyAny>, described: Description) -> PyResult<()> {
        let config = ServerConfig(config);
        let (drain_timeout, changed) = (config.drain_timeout()?, config.changeable()?);
        if let Some((server, _)) = self.running() {
            server.change(&Config { description: description(described), ..changed });
            self.drain_timeout.set(drain_timeout);
        }
        Ok(())
    }

    /// Counts settings that were read again, and of which one is wrong.
    fn refuse_change(&self) {
        if let Some((server, _)) = self.running() {
            server.refuse_change();
        }
    }

    /// Describes the settings again, for operators.
    fn describe(&self, described: Description) {
        if let Some((server, _)) = self.running() {
            server.describe(description(described));
        }
    }

    fn reload_files(&self, py: Python<'_>) {
        if let Some((server, _)) = self.running() {
            detached(py, || server.reload_files());
        }
    }

    fn audit_reload(&self, models: Option<&str>, ok: bool) {
        if let Stage::Running(server) = &*lock(&self.stage) {
            server.audit_reload(models, ok);
        }
    }

    fn stuck(&self) -> Vec<String> {
        self.host.stuck()
    }

    fn stop(&self, py: Python<'_>, timeout: Option<f64>) -> Vec<String> {
        let (server, first) = {
            let mut stage = lock(&self.stage);
            match std::mem::replace(&mut *stage, Stage::Stopped) {
                Stage::Running(server) => {
                    *stage = Stage::Stopping(Arc::clone(&server));
                    (server, true)
                }
                Stage::Stopping(server) => {
                    *stage = Stage::Stopping(Arc::clone(&server));
                    (server, false)
                }
                Stage::Made(_) | Stage::Stopped => return Vec::new(),
            }
        };
        let timeout = duration(timeout.unwrap_or_else(|| self.drain_timeout.get())).unwrap_or(Duration::ZERO);
        let cut = detached(py, || server.drain(timeout));
        if !first {
            // Another thread stops it, with a deadline that is not later, and reports the requests that were cut off.
            self.wait_ended(py);
            return Vec::new();
        }
        self.closing.store(true, Ordering::Release);
        let probe = lock(&self.probe).take();
        detached(py, || probe.map(ProbeThread::end));
        self.host.close(py);
        *lock(&self.stage) = Stage::Stopped;
        self.end();
        cut
    }
}

impl Drop for Server {
    /// Stops a server that was not stopped. I/O threads of inline models need the interpreter to end.
    fn drop(&mut self) {
        if let Stage::Running(server) | Stage::Stopping(server) =
            std::mem::replace(&mut *lock(&self.stage), Stage::Stopped)
        {
            attached(|py| detached(py, || drop(server)));
        }
    }
}

impl Server {
    /// The running server, and the flag that its handlers are being closed.
    pub(crate) fn running(&self) -> Option<(Arc<penstock_server::Server>, Arc<AtomicBool>)> {
        match &*lock(&self.stage) {
            Stage::Running(server) | Stage::Stopping(server) => Some((Arc::clone(server), Arc::clone(&self.closing))),
            Stage::Made(_) | Stage::Stopped => None,
        }
    }

    fn wait_ended(&self, py: Python<'_>) {
        detached(py, || {
            let stopped = self.ended.wait_while(lock(&self.stopped), |stopped| !*stopped);
            drop(stopped.unwrap_or_else(PoisonError::into_inner));
        });
    }

    fn end(&self) {
        *lock(&self.stopped) = true;
        self.ended.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
