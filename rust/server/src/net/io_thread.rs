//! I/O threads. Each has its own runtime and [`CompletionQueue`], and a connection stays on
//! one of them: a request wakes only a thread of its model.

use super::{
    accept::{Accepted, Intake, accept_all},
    client_addresses::ClientAddresses,
    connection::{ConnectionSettings, builder},
    connections::{Connections, Lifecycle},
    handshake::ServerTls,
    listen::{Bound, StartError},
    new_connection::take_over,
};
use crate::{
    dispatch::{Dispatcher, ListenerScope},
    observe::TracingEvents,
    settings::{Address, StallSettings},
    state::App,
};
use penstock_core::CompletionQueue;
use penstock_tls::Alpn;
use std::{
    sync::{Arc, atomic::AtomicUsize},
    thread,
};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

/// The running I/O threads.
#[derive(Debug)]
pub(crate) struct IoThreads {
    lifecycle: watch::Sender<Lifecycle>,
    intake: watch::Sender<Intake>,
    /// Held by each thread until no accepted connection can come to it any more.
    dealing: Arc<()>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// State of an I/O thread, for its connections.
#[derive(Clone)]
pub(super) struct IoThread {
    pub(super) app: Arc<App>,
    /// Dispatcher of each listener.
    pub(super) dispatchers: Arc<[Dispatcher]>,
    pub(super) settings: ConnectionSettings,
    pub(super) open: Arc<AtomicUsize>,
    pub(super) addresses: Arc<ClientAddresses>,
    /// TLS of each listener.
    pub(super) encrypted: Arc<[Encrypted]>,
}

/// TLS of a listener, with the protocols that it offers; `None` for plain connections.
pub(super) type Encrypted = Option<(Arc<ServerTls>, Alpn)>;

/// Returns the number of processors of this process: those of its affinity, within its control group's CPU quota.
/// A quota is rounded down; at least 1.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the default number of I/O threads. Handlers need cores too, and each further thread splits
/// batches between more socket polls.
pub(crate) fn default_io_threads(cores: usize) -> usize {
    (cores / 2).clamp(1, 4)
}

impl IoThreads {
    /// Starts all threads. The first one accepts for all.
    pub(crate) fn start(app: &Arc<App>, bound: Vec<Bound>, tls: Option<&Arc<ServerTls>>) -> Result<Self, StartError> {
        let cores = processors();
        let count = match app.config.io_threads {
            0 => default_io_threads(cores),
            count => count,
        };
        let beat_interval = app.config.stalls.timeout.map(StallSettings::interval);
        if beat_interval.is_some() {
            app.liveness.expect_beats(count);
        }
        let io_scope = app.config.io_thread_scope;
        let (lifecycle, receiver) = watch::channel(Lifecycle::Serve);
        let (intake, accepts) = watch::channel(Intake::Loading);
        let dealing = Arc::new(());
        let open = Arc::new(AtomicUsize::new(0));
        let addresses = Arc::<ClientAddresses>::default();
        let served: Vec<ListenerScope> = bound.iter().map(served).collect();
        let encrypted: Arc<[Encrypted]> = bound.iter().map(|bound| encrypted(bound, tls)).collect();
        let (mut inboxes, mut threads) = (Vec::new(), Vec::new());
        let mut acceptor = Some(bound);
        let mut pending = Vec::new();
        for _ in 0..count {
            let (sender, inbox) = mpsc::unbounded_channel::<Accepted>();
            inboxes.push(sender);
            pending.push(inbox);
        }
        for (index, inbox) in pending.into_iter().enumerate() {
            let (app, served, lifecycle) = (Arc::clone(app), served.clone(), receiver.clone());
            let (open, inboxes, addresses) = (Arc::clone(&open), inboxes.clone(), Arc::clone(&addresses));
            let (encrypted, tls) = (Arc::clone(&encrypted), tls.map(Arc::clone));
            let acceptor = acceptor.take().zip(Some(accepts.clone()));
            let dealing = Arc::clone(&dealing);
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().max_blocking_threads(cores).thread_name("penstock-decode");
            let runtime = runtime.build().map_err(StartError::Thread)?;
            let run = move || {
                let _reports = tracing::subscriber::set_default(TracingEvents(Arc::clone(&app.log)));
                runtime.block_on(async move {
                    let completions = CompletionQueue::new();
                    let dispatchers = served
                        .iter()
                        .map(|&served| Dispatcher::new(Arc::clone(&app), Some(completions.clone()), served))
                        .collect();
                    let builder = Arc::new(builder(&app.config.limits));
                    tokio::spawn(async move { completions.run().await });
                    let mut until = lifecycle.clone();
                    let limits = app.limits_of_thread();
                    let connections = Arc::new(Connections::default());
                    let writing = Arc::clone(&app.writing);
                    let watched = (Arc::clone(&connections), Arc::clone(&limits), lifecycle.clone());
                    tokio::spawn(async move { watched.0.run(&watched.1, watched.2).await });
                    if let Some(interval) = beat_interval {
                        let liveness = Arc::clone(&app.liveness);
                        tokio::spawn(async move {
                            loop {
                                liveness.beat(index);
                                sleep(interval).await;
                            }
                        });
                    }
                    let settings = ConnectionSettings { builder, limits, connections, writing };
                    let thread_state = IoThread { app, dispatchers, settings, open, addresses, encrypted };
                    if let Some((bound, accepts)) = acceptor {
                        accept_all(bound, &inboxes, &accepts);
                        let app = Arc::clone(&thread_state.app);
                        if let Some(keys) = &app.keys {
                            tokio::spawn(Arc::clone(keys).watch(Arc::clone(&app.metrics), Arc::clone(&app.log)));
                        }
                        tokio::spawn(app.watched().start_when_needed());
                        tokio::spawn(
                            async move { app.memory.watch(&app.config.limits.memory_shed, &app.metrics).await },
                        );
                        if let Some(tls) = tls {
                            tokio::spawn(tls.watch());
                        }
                    }
                    drop(inboxes);
                    tokio::spawn(async move {
                        take_over(thread_state, inbox).await;
                        drop(dealing);
                    });
                    // An error means that the server is gone, which closes too.
                    let _ = until.wait_for(|lifecycle| *lifecycle == Lifecycle::Close).await;
                });
            };
            let scope = io_scope;
            let run = move || scope(Box::new(run));
            threads.push(
                thread::Builder::new().name(format!("penstock-io-{index}")).spawn(run).map_err(StartError::Thread)?,
            );
        }
        Ok(Self { lifecycle, intake, dealing, threads })
    }

    /// Accepts on inherited sockets too.
    pub(crate) fn open(&self) {
        self.intake.send_if_modified(|intake| {
            let is_loading = *intake == Intake::Loading;
            if is_loading {
                *intake = Intake::Open;
            }
            is_loading
        });
    }

    /// Accepts no more connections, which another process does, and lets the clients of open ones open others.
    pub(crate) fn hand_over(&self) {
        self.intake.send_replace(Intake::HandedOver);
        self.lifecycle.send_replace(Lifecycle::Retire);
    }

    /// Reports whether all accepted connections are counted, after [`Self::hand_over`].
    pub(crate) fn has_dealt_all(&self) -> bool {
        Arc::strong_count(&self.dealing) == 1
    }

    /// Lets connections finish running requests, then closes them.
    pub(crate) fn finish(&self) {
        self.lifecycle.send_replace(Lifecycle::Drain);
    }

    /// Closes all connections and ends the threads.
    pub(crate) fn close(self) {
        self.lifecycle.send_replace(Lifecycle::Close);
        for thread in self.threads {
            // A panic was reported by its thread.
            let _ = thread.join();
        }
    }
}

fn served(bound: &Bound) -> ListenerScope {
    let (tcp, port) = match &bound.address {
        Address::Tcp(address) => (true, address.port()),
        Address::Unix(_) | Address::Descriptor(_) => (false, 0),
    };
    // Clients of a proxy are anywhere.
    let local = bound.address.is_local() && !bound.proxied;
    ListenerScope { serves: bound.serves, local, tcp, tls: bound.tls, proxied: bound.proxied, port }
}

fn encrypted(bound: &Bound, tls: Option<&Arc<ServerTls>>) -> Encrypted {
    let tls = tls.filter(|_| bound.tls)?;
    Some((Arc::clone(tls), if bound.serves.rest || bound.serves.metrics { Alpn::Http } else { Alpn::Grpc }))
}
