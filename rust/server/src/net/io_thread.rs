//! I/O threads. Each has its own runtime and [`CompletionQueue`], and a connection stays on
//! one of them: a request wakes only a thread of its model.

use super::{
    client_addresses::ClientAddresses,
    connection::{ConnectionSettings, builder},
    connections::{Connections, Lifecycle},
    handshake::ServerTls,
    listen::{Bound, BoundSocket, SocketFile, StartError},
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
    io,
    net::{SocketAddr, TcpStream as StdTcpStream},
    os::unix::net::UnixStream as StdUnixStream,
    sync::{Arc, atomic::AtomicUsize},
    thread,
    time::Duration,
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{mpsc, watch},
    time::sleep,
};

/// An accepted socket, the index of its listener, and the address of its client; `None` for Unix sockets.
pub(super) type Accepted = (Socket, usize, Option<SocketAddr>);

pub(super) enum Socket {
    Tcp(StdTcpStream),
    Unix(StdUnixStream),
}

/// The running I/O threads.
#[derive(Debug)]
pub(crate) struct IoThreads {
    lifecycle: watch::Sender<Lifecycle>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// State of an I/O thread, for its connections.
#[derive(Clone)]
pub(super) struct IoThread {
    pub(super) app: Arc<App>,
    /// Dispatcher of each listener.
    pub(super) dispatchers: Arc<[Dispatcher]>,
    pub(super) settings: ConnectionSettings,
    lifecycle: watch::Receiver<Lifecycle>,
    pub(super) open: Arc<AtomicUsize>,
    /// `None` without a limit.
    pub(super) addresses: Option<Arc<ClientAddresses>>,
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
        let open = Arc::new(AtomicUsize::new(0));
        let per_address = app.config.limits.max_connections_per_address;
        let addresses = (per_address > 0).then(|| Arc::new(ClientAddresses::new(per_address)));
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
            let (open, inboxes, addresses) = (Arc::clone(&open), inboxes.clone(), addresses.clone());
            let (encrypted, tls) = (Arc::clone(&encrypted), tls.map(Arc::clone));
            let bound = acceptor.take();
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
                    let limits = Arc::new(app.config.limits.clone());
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
                    let thread_state = IoThread { app, dispatchers, settings, lifecycle, open, addresses, encrypted };
                    if let Some(bound) = bound {
                        accept_all(bound, &thread_state, &inboxes);
                        let app = Arc::clone(&thread_state.app);
                        if let Some(keys) = &app.keys {
                            tokio::spawn(Arc::clone(keys).watch(Arc::clone(&app.metrics), Arc::clone(&app.log)));
                        }
                        tokio::spawn(app.watched().start_when_needed());
                        tokio::spawn(async move { app.memory.watch(&app.metrics).await });
                        if let Some(tls) = tls {
                            tokio::spawn(tls.watch());
                        }
                    }
                    drop(inboxes);
                    tokio::spawn(take_over(thread_state, inbox));
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
        Ok(Self { lifecycle, threads })
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
        Address::Unix(_) => (false, 0),
    };
    // Clients of a proxy are anywhere.
    let local = bound.address.is_local() && !bound.proxied;
    ListenerScope { serves: bound.serves, local, tcp, tls: bound.tls, proxied: bound.proxied, port }
}

fn encrypted(bound: &Bound, tls: Option<&Arc<ServerTls>>) -> Encrypted {
    let tls = tls.filter(|_| bound.tls)?;
    Some((Arc::clone(tls), if bound.serves.rest || bound.serves.metrics { Alpn::Http } else { Alpn::Grpc }))
}

fn accept_all(bound: Vec<Bound>, thread_state: &IoThread, inboxes: &[mpsc::UnboundedSender<Accepted>]) {
    for (index, bound) in bound.into_iter().enumerate() {
        let (lifecycle, inboxes) = (thread_state.lifecycle.clone(), inboxes.to_vec());
        match bound.socket {
            BoundSocket::Tcp(listener) => {
                if let Ok(listener) = TcpListener::from_std(listener) {
                    tokio::spawn(accept(Acceptor::Tcp(listener), index, inboxes, lifecycle));
                }
            }
            BoundSocket::Unix(listener, file) => {
                if let Ok(listener) = UnixListener::from_std(listener) {
                    tokio::spawn(accept(Acceptor::Unix(listener, file), index, inboxes, lifecycle));
                }
            }
        }
    }
}

enum Acceptor {
    Tcp(TcpListener),
    // The file is removed when accepting ends.
    Unix(UnixListener, #[expect(dead_code, reason = "held for its drop")] SocketFile),
}

impl Acceptor {
    /// Returns the next socket, and the address of its client; `None` for Unix sockets.
    async fn next(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (socket, peer) = listener.accept().await?;
                socket.set_nodelay(true)?;
                (Socket::Tcp(socket.into_std()?), Some(peer))
            }
            Self::Unix(listener, _) => (Socket::Unix(listener.accept().await?.0.into_std()?), None),
        })
    }
}

/// Accepts connections, and distributes them round-robin.
async fn accept(
    acceptor: Acceptor,
    listener: usize,
    inboxes: Vec<mpsc::UnboundedSender<Accepted>>,
    mut lifecycle: watch::Receiver<Lifecycle>,
) {
    let mut turn = 0;
    loop {
        let accepted = tokio::select! {
            accepted = acceptor.next() => accepted,
            // While the server drains, probes still connect to read its readiness.
            _ = lifecycle.wait_for(|lifecycle| *lifecycle == Lifecycle::Close) => return,
        };
        match accepted {
            Ok((socket, peer)) => {
                // A thread that ended has closed its inbox; the server is closing.
                let _ = inboxes[turn % inboxes.len()].send((socket, listener, peer));
                turn += 1;
            }
            // Out of descriptors, for example: a retry may succeed.
            Err(error) if error.kind() != io::ErrorKind::ConnectionAborted => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(_) => {}
        }
    }
}
