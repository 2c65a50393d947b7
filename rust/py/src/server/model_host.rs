//! Host of a server's models and of the instances that run them.

use super::warmup;
use crate::{
    attach::detached,
    definition::{self, HandlerSpec},
    errors::startup,
    event_loop, forks,
    handler::{
        instance,
        load_result::{self, LoadResult},
    },
    peers::CallGraph,
    process,
};
use penstock_core::{
    Dialect, Model, ModelSpec, Readiness, Registry, Resources,
    metrics::Metrics,
    queue::{InstanceKind, Queue},
};
use penstock_process::ProcessPool;
use penstock_server::Control;
use pyo3::{prelude::*, types::PyList};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The time that handlers may take to close after the last request.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval of checks whether they have closed.
const CLOSE_POLL: Duration = Duration::from_millis(2);

/// Models with running instances. Only the registry holds them, so that a removed model ends.
#[derive(Debug)]
pub(crate) struct ModelHost {
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Arc<Metrics>,
    /// The resources that instances share.
    resources: Arc<Resources>,
    /// The commands of clients to load and unload models.
    pub(crate) control: Control,
    peers: Arc<CallGraph>,
    starting: Mutex<Vec<Starting>>,
    instances: Mutex<Vec<(String, JoinHandle<()>)>>,
    stuck: Mutex<Vec<String>>,
}

/// A model whose instances are not built yet.
type Starting = (Arc<Model>, Arc<HandlerSpec>);

impl ModelHost {
    /// Models that are not loaded yet.
    pub(crate) fn new(
        py: Python<'_>,
        definitions: Vec<(ModelSpec, Arc<HandlerSpec>)>,
        (resources, dialect): (Resources, Dialect),
    ) -> PyResult<Self> {
        forks::begin();
        let resources = Arc::new(resources);
        let (registry, metrics) = (Arc::new(Registry::with_dialect(dialect)), Arc::new(Metrics::default()));
        let mut starting = Vec::new();
        for (spec, handler_spec) in definitions {
            let model = create_model(py, spec, &metrics, &resources)?;
            registry.insert(Arc::clone(&model)).map_err(|error| startup(py, "SignatureError", error.message()))?;
            starting.push((model, handler_spec));
        }
        Ok(Self {
            peers: Arc::new(CallGraph::new(Arc::clone(&registry))),
            registry,
            metrics,
            resources,
            control: Control::default(),
            starting: Mutex::new(starting),
            instances: Mutex::default(),
            stuck: Mutex::default(),
        })
    }

    /// Returns true if an initial model may be computed on I/O threads.
    pub(crate) fn has_inline(&self) -> bool {
        lock(&self.starting).iter().any(|(_, handler_spec)| handler_spec.inline)
    }

    /// Builds the instances of all initial models.
    pub(crate) fn load(&self, py: Python<'_>) -> PyResult<()> {
        let starting = std::mem::take(&mut *lock(&self.starting));
        self.build(py, &starting)
    }

    /// Builds the instances of a model that is not in the registry yet.
    pub(crate) fn prepare(&self, py: Python<'_>, definition: &Bound<'_, PyAny>) -> PyResult<Arc<Model>> {
        let (spec, handler_spec) = definition::read(definition)?;
        let starting = [(create_model(py, spec, &self.metrics, &self.resources)?, handler_spec)];
        self.build(py, &starting)?;
        let [(model, _)] = starting;
        Ok(model)
    }

    fn build(&self, py: Python<'_>, starting: &[Starting]) -> PyResult<()> {
        lock(&self.instances).retain(|(_, thread)| !thread.is_finished());
        let mut waiting = Vec::new();
        for (model, handler_spec) in starting {
            handler_spec.caller.join(&self.peers, model.spec());
            let (built, receiver) = mpsc::channel::<LoadResult>();
            let (spec, pool) = (model.spec(), Arc::new(ProcessPool::default()));
            for index in 0..spec.instances {
                let (queue, built) = (Arc::clone(model.queue()), built.clone());
                let thread = match &handler_spec.processes {
                    None if handler_spec.concurrency.is_some() => {
                        event_loop::spawn(queue, index, Arc::clone(handler_spec), built)
                    }
                    None => instance::spawn(queue, index, Arc::clone(handler_spec), built),
                    Some(processes) => {
                        queue.instance(index).set_kind(InstanceKind::Process);
                        process::spawn(queue, index, processes, &pool, built)
                    }
                };
                let thread =
                    thread.map_err(|error| startup(py, "LoadError", &format!("model '{}': {error}", spec.name)))?;
                lock(&self.instances).push((format!("{} (version {})", spec.name, spec.version), thread));
            }
            waiting.push((model, handler_spec, receiver, handler_spec.processes.is_some().then_some(pool)));
        }
        for (model, handler_spec, receiver, pool) in waiting {
            let spec = model.spec();
            let stopping = || self.control.is_closed();
            let warm = || match &handler_spec.warmup {
                Some(definition) => warmup::warm_up(definition.bind(py), model, stopping),
                None => Ok(()),
            };
            load_result::wait_built(py, receiver, spec.instances, stopping).and_then(|()| Ok(warm()?)).map_err(
                |cause| {
                    let problem =
                        format!("model '{}' version '{}' could not be loaded: {cause}", spec.name, spec.version);
                    let error = startup(py, "LoadError", &problem);
                    error.set_cause(py, cause.into_cause());
                    error
                },
            )?;
            model.set_readiness(Readiness::Ready);
            if let Some(pool) = pool {
                pool.track(model);
            }
        }
        Ok(())
    }

    /// Replaces the versions of `name` in one step by `models` and those in `keep`.
    pub(crate) fn swap(&self, name: &str, models: Vec<Arc<Model>>, keep: &[String]) {
        self.registry.swap(name, models, keep);
        if self.control.is_closed() {
            // The server has stopped meanwhile, and no other thread closes them.
            self.close_queues();
        }
    }

    /// Closes the queues, so that the instances close their handlers and end.
    pub(crate) fn close(&self, py: Python<'_>) {
        self.control.close();
        self.close_queues();
        let instances = std::mem::take(&mut *lock(&self.instances));
        let until = Instant::now() + CLOSE_TIMEOUT;
        let running = |(_, thread): &(String, JoinHandle<()>)| !thread.is_finished();
        detached(py, || {
            while instances.iter().any(running) && Instant::now() < until {
                thread::sleep(CLOSE_POLL);
            }
        });
        // A handler that does not return is left running, and reported.
        let mut stuck: Vec<String> = instances.into_iter().filter(running).map(|(model, _)| model).collect();
        stuck.dedup();
        lock(&self.stuck).extend(stuck);
    }

    fn close_queues(&self) {
        self.registry.all().iter().map(|model| Arc::clone(model.queue())).for_each(|queue| queue.close());
        self.registry.draining_queues().iter().for_each(|queue: &Arc<Queue>| queue.close());
    }

    /// The models whose handlers did not return in time.
    pub(crate) fn stuck(&self) -> Vec<String> {
        lock(&self.stuck).clone()
    }
}

impl Drop for ModelHost {
    /// Without a stop the instances end too, but no thread waits for them here.
    fn drop(&mut self) {
        self.control.close();
        self.close_queues();
    }
}

/// Creates a model whose batches wait for its resources.
fn create_model(
    py: Python<'_>,
    spec: ModelSpec,
    metrics: &Metrics,
    resources: &Arc<Resources>,
) -> PyResult<Arc<Model>> {
    let model = Model::new(spec, metrics);
    let spec = model.spec();
    if let Some(request) = &spec.resources {
        let claim = resources.register(&spec.name, request);
        model.queue().set_resources(claim.map_err(|error| startup(py, "LoadError", error.message()))?);
    }
    Ok(Arc::new(model))
}

/// Reads a list of definitions.
pub(crate) fn read_definitions(definitions: &Bound<'_, PyList>) -> PyResult<Vec<(ModelSpec, Arc<HandlerSpec>)>> {
    definitions.iter().map(|definition| definition::read(&definition)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
