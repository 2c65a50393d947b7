//! `_core.Server`: models, their instances, and the sockets in front of them.

use crate::{
    attach::detached,
    config::{ServerConfig, duration},
    definition::{self, Handling},
    errors::startup,
    instance::{self, Built, SIGNALS_EVERY},
};
use penstock_core::{Model, ModelSpec, Readiness, Registry, metrics::Metrics};
use penstock_server::{Address, Config};
use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyList};
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long handlers may take to close after the last request.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// How often it is looked whether they have.
const CLOSE_LOOK: Duration = Duration::from_millis(2);

/// Models whose instances run.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Arc<Metrics>,
    models: Vec<(Arc<Model>, Arc<Handling>)>,
    instances: Mutex<Vec<(String, JoinHandle<()>)>>,
    stuck: Mutex<Vec<String>>,
}

impl Loaded {
    /// Models that are not loaded yet.
    pub(crate) fn new(py: Python<'_>, definitions: Vec<(ModelSpec, Arc<Handling>)>) -> PyResult<Self> {
        let (registry, metrics) = (Arc::new(Registry::default()), Arc::new(Metrics::default()));
        let mut models = Vec::new();
        for (spec, handling) in definitions {
            let model = Arc::new(Model::new(spec, &metrics));
            registry.insert(Arc::clone(&model)).map_err(|error| startup(py, "SignatureError", error.message()))?;
            models.push((model, handling));
        }
        Ok(Self { registry, metrics, models, instances: Mutex::default(), stuck: Mutex::default() })
    }

    /// Builds every instance of every model.
    pub(crate) fn load(&self, py: Python<'_>) -> PyResult<()> {
        let mut waiting = Vec::new();
        for (model, handling) in &self.models {
            let (built, receiver) = mpsc::channel::<Built>();
            let count = model.spec().instances;
            for index in 0..count {
                let spec = model.spec();
                let thread = instance::spawn(Arc::clone(model), index, Arc::clone(handling), built.clone())
                    .map_err(|error| startup(py, "LoadError", &format!("model '{}': {error}", spec.name)))?;
                lock(&self.instances).push((format!("{} (version {})", spec.name, spec.version), thread));
            }
            waiting.push((model, receiver, count));
        }
        for (model, receiver, count) in waiting {
            instance::wait_built(py, receiver, count).map_err(|cause| {
                let spec = model.spec();
                let problem = format!("model '{}' version '{}' could not be loaded: {cause}", spec.name, spec.version);
                let error = startup(py, "LoadError", &problem);
                error.set_cause(py, Some(cause));
                error
            })?;
            model.set_readiness(Readiness::Ready);
        }
        Ok(())
    }

    /// Closes the queues, so that the instances close their handlers and end.
    pub(crate) fn close(&self, py: Python<'_>) {
        self.models.iter().for_each(|(model, _)| model.queue().close());
        let instances = std::mem::take(&mut *lock(&self.instances));
        let until = Instant::now() + CLOSE_WITHIN;
        let running = |(_, thread): &(String, JoinHandle<()>)| !thread.is_finished();
        detached(py, || {
            while instances.iter().any(running) && Instant::now() < until {
                thread::sleep(CLOSE_LOOK);
            }
        });
        // A handler that does not return is left behind, and named.
        let mut stuck: Vec<String> = instances.into_iter().filter(running).map(|(model, _)| model).collect();
        stuck.dedup();
        lock(&self.stuck).extend(stuck);
    }

    /// The models whose handlers did not return in time.
    pub(crate) fn stuck(&self) -> Vec<String> {
        lock(&self.stuck).clone()
    }
}

impl Drop for Loaded {
    /// A server that is dropped without a stop lets its instances end; nobody can wait for them here.
    fn drop(&mut self) {
        self.models.iter().for_each(|(model, _)| model.queue().close());
    }
}

/// Reads a list of definitions.
pub(crate) fn read_definitions(definitions: &Bound<'_, PyList>) -> PyResult<Vec<(ModelSpec, Arc<Handling>)>> {
    definitions.iter().map(|definition| definition::read(&definition)).collect()
}

#[derive(Debug)]
enum Stage {
    Made(Box<Config>),
    Running(Arc<penstock_server::Server>),
    Stopping(Arc<penstock_server::Server>),
    Stopped,
}

/// Listens, decodes, queues, batches, calls handlers and answers.
#[pyclass(frozen, weakref, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Server {
    loaded: Loaded,
    drain_timeout: f64,
    stage: Mutex<Stage>,
    addresses: Mutex<(Option<String>, Option<String>)>,
    stopped: Mutex<bool>,
    ended: Condvar,
}

#[pymethods]
impl Server {
    #[new]
    fn new(definitions: &Bound<'_, PyList>, config: ServerConfig) -> PyResult<Self> {
        let py = definitions.py();
        let loaded = Loaded::new(py, read_definitions(definitions)?)?;
        let drain_timeout = config.drain_timeout;
        Ok(Self {
            loaded,
            drain_timeout,
            stage: Mutex::new(Stage::Made(Box::new(config.listening(py)?))),
            addresses: Mutex::default(),
            stopped: Mutex::new(false),
            ended: Condvar::new(),
        })
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let Stage::Made(config) = std::mem::replace(&mut *lock(&self.stage), Stage::Stopped) else {
            return Err(PyRuntimeError::new_err("a server starts once; make another one"));
        };
        let (registry, metrics) = (Arc::clone(&self.loaded.registry), Arc::clone(&self.loaded.metrics));
        let started = detached(py, || penstock_server::Server::start(*config, registry, metrics));
        let server = started.map_err(|error| startup(py, "BindError", &error.to_string()))?;
        let text = |address: Option<&Address>| address.map(ToString::to_string);
        *lock(&self.addresses) = (text(server.http_address()), text(server.grpc_address()));
        if let Err(error) = self.loaded.load(py) {
            detached(py, || drop(server));
            self.loaded.close(py);
            self.end();
            return Err(error);
        }
        server.set_ready();
        *lock(&self.stage) = Stage::Running(Arc::new(server));
        Ok(())
    }

    #[getter]
    fn http_address(&self) -> Option<String> {
        lock(&self.addresses).0.clone()
    }

    #[getter]
    fn grpc_address(&self) -> Option<String> {
        lock(&self.addresses).1.clone()
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

    fn stuck(&self) -> Vec<String> {
        self.loaded.stuck()
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
        let timeout = duration(timeout.unwrap_or(self.drain_timeout)).unwrap_or(Duration::ZERO);
        let cut = detached(py, || server.drain(timeout));
        if !first {
            // Another thread is stopping it, by now no later than this call asked for.
            self.wait_ended(py);
            return cut;
        }
        self.loaded.close(py);
        *lock(&self.stage) = Stage::Stopped;
        self.end();
        cut
    }
}

impl Server {
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
