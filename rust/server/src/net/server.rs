//! The life of a server: bind, serve, changes of settings. `drain.rs` has its end.

use super::{
    drain::Deadline,
    handshake::ServerTls,
    io_thread::IoThreads,
    listen::{Bound, StartError, bind_all},
};
use crate::{
    observe::AuditEvent,
    settings::{Address, Config, ConfigDescription, Listener, Serves},
    state::{App, Phase},
};
use penstock_core::{Registry, metrics::Metrics};
use std::{
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
    time::Duration,
};

/// A running server. Dropping it closes it at once; [`Server::drain`] lets requests finish.
#[derive(Debug)]
pub struct Server {
    pub(super) app: Arc<App>,
    tls: Option<Arc<ServerTls>>,
    listeners: Vec<Listener>,
    /// Addresses as configured, with the descriptors of their sockets.
    sockets: Vec<(Address, i32)>,
    /// Id of the process that started it: a fork has none of its threads.
    pub(super) process: u32,
    pub(super) threads: Mutex<Option<IoThreads>>,
    pub(super) is_handed_over: AtomicBool,
    /// The time from which on a drain refuses new requests.
    pub(super) refusing: Deadline,
    /// End of a running drain.
    pub(super) give_up: Deadline,
    /// Models with unfinished requests, once the drain has ended.
    pub(super) cut: OnceLock<Vec<String>>,
}

impl Server {
    /// Binds all listeners and serves them. Inference is refused until [`Server::set_ready`].
    ///
    /// # Errors
    /// [`StartError`], in one line.
    pub fn start(config: Config, registry: Arc<Registry>, metrics: Arc<Metrics>) -> Result<Self, StartError> {
        let app = Arc::new(App::new(config, registry, metrics)?);
        let config = &app.config;
        let tls = config.tls.as_ref().map(|tls| ServerTls::load(tls, &app.metrics, &app.log)).transpose()?;
        let tls = tls.map(Arc::new);
        let bound = bind_all(&config.listeners, &config.inherited)?;
        let listeners = bound
            .iter()
            .map(|&Bound { ref address, serves, tls, proxied, .. }| Listener {
                address: address.clone(),
                serves,
                tls,
                proxied,
            })
            .collect();
        let configured = config.listeners.iter().map(|listener| listener.address.clone());
        let sockets = configured.zip(bound.iter().map(|bound| bound.socket.descriptor())).collect();
        let threads = Mutex::new(Some(IoThreads::start(&app, bound, tls.as_ref())?));
        let process = std::process::id();
        let is_handed_over = AtomicBool::new(false);
        let (refusing, give_up, cut) = (Mutex::new(None), Mutex::new(None), OnceLock::new());
        Ok(Self { app, tls, listeners, sockets, process, threads, is_handed_over, refusing, give_up, cut })
    }

    /// Returns the listeners; port 0 is replaced by the actual port.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Returns the listening sockets, which are open until it has drained or handed them over: each with its address
    /// as it was configured, and its descriptor.
    pub fn sockets(&self) -> &[(Address, i32)] {
        &self.sockets
    }

    /// Returns the address of REST.
    pub fn http_address(&self) -> Option<&Address> {
        self.address_of(|serves| serves.rest && !serves.admin)
    }

    /// Returns the address of gRPC.
    pub fn grpc_address(&self) -> Option<&Address> {
        self.address_of(|serves| serves.grpc && !serves.admin)
    }

    /// Returns the address that serves only metrics.
    pub fn metrics_address(&self) -> Option<&Address> {
        self.address_of(|serves| serves.metrics)
    }

    /// Returns the address for operators.
    pub fn admin_address(&self) -> Option<&Address> {
        self.address_of(|serves| serves.admin)
    }

    fn address_of(&self, is_wanted: impl Fn(Serves) -> bool) -> Option<&Address> {
        self.listeners.iter().find(|listener| is_wanted(listener.serves)).map(|listener| &listener.address)
    }

    /// Records that the operator has reloaded the code of these models.
    pub fn audit_reload(&self, models: Option<&str>, ok: bool) {
        if let Some(audit) = self.app.log.audit() {
            audit.note(AuditEvent::of_operator("reload", models, ok));
        }
    }

    /// Opens the audit log again, and reads the certificates and keys again if their files have changed.
    pub fn reload_files(&self) {
        if let Some(audit) = self.app.log.audit() {
            audit.reopen();
        }
        if let Some(tls) = &self.tls {
            tls.reload();
        }
        if let Some(keys) = &self.app.keys {
            keys.reload(&self.app.metrics, &self.app.log);
        }
    }

    /// Takes over the settings of `config` that may change while the server runs, and their description.
    pub fn change(&self, config: &Config) {
        self.app.change(config);
        if let (Some(tls), Some(changed)) = (&self.tls, &config.tls) {
            tls.set_handshake_timeout(changed.handshake_timeout.get());
        }
        self.app.metrics.config.reloaded(true);
    }

    /// Counts settings that were read again, and of which one is wrong.
    pub fn refuse_change(&self) {
        self.app.metrics.config.reloaded(false);
    }

    /// Describes the settings again: a model was added or replaced.
    pub fn describe(&self, description: ConfigDescription) {
        self.app.describe(description);
    }

    /// Starts to accept inference, and connections on inherited sockets: all models are loaded.
    pub fn set_ready(&self) {
        self.app.advance(Phase::Ready);
        if let Some(threads) = &*self.threads() {
            threads.open();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.drain(Duration::ZERO);
    }
}
