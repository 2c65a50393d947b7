//! The life of a server: bind, serve, drain, end.

use super::{
    io_thread::IoThreads,
    listen::{StartError, bind},
};
use crate::{
    settings::{Address, Config, Listener},
    state::{App, Phase},
};
use penstock_core::{Error, Kind, Registry, metrics::Metrics};
use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How often a drain looks whether it is done.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// How long the last answers may take to reach their sockets when the drain is late already.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(250);

/// How long the collector may take for the last spans.
const SPAN_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// A running server. Dropping it closes it at once; [`Server::drain`] lets requests finish.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    listeners: Vec<Listener>,
    descriptors: Vec<i32>,
    /// The process that started it: a fork of that has none of its threads.
    process: u32,
    threads: Mutex<Option<IoThreads>>,
    /// When a drain that is under way gives up.
    give_up: Mutex<Option<Instant>>,
    /// What the drain cut off, once it has ended.
    cut: OnceLock<Vec<String>>,
}

impl Server {
    /// Binds all listeners and serves them. Inference is refused until [`Server::set_ready`].
    ///
    /// # Errors
    /// [`StartError`], with one clear line.
    pub fn start(config: Config, registry: Arc<Registry>, metrics: Arc<Metrics>) -> Result<Self, StartError> {
        let bound = config.listeners.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let listeners = bound
            .iter()
            .map(|bound| Listener {
                address: bound.address.clone(),
                rest: bound.rest,
                grpc: bound.grpc,
                metrics: bound.metrics,
            })
            .collect();
        let descriptors = bound.iter().map(|bound| bound.socket.descriptor()).collect();
        let app = Arc::new(App::new(config, registry, metrics));
        let threads = Mutex::new(Some(IoThreads::start(&app, bound)?));
        let process = std::process::id();
        Ok(Self { app, listeners, descriptors, process, threads, give_up: Mutex::new(None), cut: OnceLock::new() })
    }

    /// What is listened on; port 0 is replaced by the port that was picked.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// The descriptors that are listened on until it has drained.
    pub fn descriptors(&self) -> &[i32] {
        &self.descriptors
    }

    /// The address that serves REST.
    pub fn http_address(&self) -> Option<&Address> {
        self.listeners.iter().find(|listener| listener.rest).map(|listener| &listener.address)
    }

    /// The address that serves gRPC.
    pub fn grpc_address(&self) -> Option<&Address> {
        self.listeners.iter().find(|listener| listener.grpc).map(|listener| &listener.address)
    }

    /// The address that serves metrics and nothing else.
    pub fn metrics_address(&self) -> Option<&Address> {
        self.listeners.iter().find(|listener| listener.metrics).map(|listener| &listener.address)
    }

    /// All models are loaded: takes requests from now on.
    pub fn set_ready(&self) {
        self.app.advance(Phase::Ready);
    }

    /// Refuses new requests from now on. Those under way have `timeout`, which [`Server::drain`] waits for.
    pub fn begin_drain(&self, timeout: Duration) {
        self.hasten(timeout);
        self.app.advance(Phase::Draining);
        self.app.registry.all().iter().for_each(|model| model.queue().drain());
        self.app.registry.draining_queues().iter().for_each(|queue| queue.drain());
        if let Some(threads) = &*self.threads() {
            threads.finish();
        }
    }

    /// Refuses new requests, lets those under way finish within `timeout`, and closes.
    ///
    /// Returns what the timeout cut off, by name; empty when all finished.
    /// Called again while it drains, it hastens the first call to the earlier of both ends, and waits for it. In a fork
    /// of the process that started it, it does nothing.
    pub fn drain(&self, timeout: Duration) -> Vec<String> {
        if self.process != std::process::id() {
            return Vec::new();
        }
        self.begin_drain(timeout);
        let threads = self.threads().take();
        match threads {
            None => self.cut.wait().clone(),
            Some(threads) => {
                let cut = self.finish(threads);
                self.cut.get_or_init(|| cut).clone()
            }
        }
    }

    /// What the drain cut off, once it has ended.
    pub fn cut_off(&self) -> Option<&[String]> {
        self.cut.get().map(Vec::as_slice)
    }

    /// Whether a drain has no time left.
    pub fn is_late(&self) -> bool {
        let give_up = self.give_up.lock().unwrap_or_else(PoisonError::into_inner);
        give_up.is_some_and(|give_up| Instant::now() >= give_up)
    }

    fn threads(&self) -> MutexGuard<'_, Option<IoThreads>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, threads: IoThreads) -> Vec<String> {
        let models = self.app.registry.all();
        // A sequence that began may go on to its end, and so may what models ask of each other after their own answer.
        let asked = || models.iter().any(|model| model.metrics().in_flight.get() > 0);
        while (self.app.requests_under_way() > 0 || self.app.has_sequences() || asked()) && !self.is_late() {
            thread::sleep(DRAIN_POLL);
        }
        let cut = models
            .iter()
            .filter_map(|model| {
                let (name, version) = (&model.spec().name, &model.spec().version);
                match (model.metrics().in_flight.get(), model.active_sequences()) {
                    (0, 0) => None,
                    (count, 0) => Some(format!("{name} (version {version}): {count} requests")),
                    (count, active) => {
                        Some(format!("{name} (version {version}): {count} requests, {active} sequences"))
                    }
                }
            })
            .collect();
        let error = Error::new(Kind::Unavailable, "the server was stopped before the request was answered");
        for model in &models {
            model.queue().fail_waiting(&error);
        }
        for queue in self.app.registry.draining_queues() {
            queue.fail_waiting(&error);
        }
        // The last answers are on their way to their sockets; a connection closes once it has sent them.
        let flushed = Instant::now() + FLUSH_TIMEOUT;
        let flushing = || self.app.metrics.connections.get() > 0 && Instant::now() < flushed;
        while flushing() || (self.app.is_writing() && !self.is_late()) {
            thread::sleep(DRAIN_POLL);
        }
        threads.close();
        if let Some(tracer) = &self.app.tracer {
            tracer.flush(SPAN_FLUSH_TIMEOUT);
        }
        cut
    }

    fn hasten(&self, timeout: Duration) {
        let Some(end) = Instant::now().checked_add(timeout) else { return };
        let mut give_up = self.give_up.lock().unwrap_or_else(PoisonError::into_inner);
        *give_up = Some(give_up.map_or(end, |known| known.min(end)));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.drain(Duration::ZERO);
    }
}
