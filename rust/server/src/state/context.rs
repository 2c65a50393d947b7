//! Surroundings of a request: the server, its I/O thread and its listener.

use super::{app::App, remote_cache::RemoteCache, request_guard::RequestGuard, visible_models::VisibleModels};
use crate::{
    keys::{Denied, Key},
    observe::RequestLog,
    settings::{Categories, Category, Requirement, SharedMemory},
    shared_memory::Regions,
};
use http::HeaderMap;
use penstock_core::{ClientIdentity, CompletionQueue, Error, Kind, Result};
use std::sync::Arc;

/// Extensions of every server.
const EXTENSIONS: &[&str] = &[
    "binary_tensor_data",
    "parameters",
    "sequence",
    "schedule_policy",
    "model_configuration",
    "model_repository",
    "classification",
    "statistics",
    "logging",
    "trace",
];

/// Surroundings of a request.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) app: Arc<App>,
    /// Completions of the I/O thread; `None` for a call in this process.
    pub(crate) completions: Option<CompletionQueue>,
    /// Response cache of several servers; `None` for calls in this process.
    pub(crate) remote: Option<Arc<RemoteCache>>,
    /// Set where only programs of this machine connect.
    pub(crate) local: bool,
    /// Set where the peer is a program of this machine: a listener for others has such peers too.
    pub(crate) local_peer: bool,
    /// Categories of routes that this listener leaves to the admin address.
    pub(crate) hidden: Categories,
    /// The client: of its connection, and with keys of the request.
    pub(crate) client: Arc<ClientIdentity>,
    /// The key of the request; `None` where no keys are configured, and before the check.
    pub(crate) key: Option<Arc<Key>>,
    /// Log line of the request; `None` where it is not logged.
    pub(crate) request_log: Option<Arc<RequestLog>>,
}

impl Context {
    /// Returns the models that the client may see.
    pub(crate) fn models(&self) -> VisibleModels<'_> {
        VisibleModels::new(&self.app.registry, &self.app.metrics, self.key.as_deref())
    }

    /// Returns the context of one message of a logged call with several; `None` where it is not logged.
    pub(crate) fn for_message(&self, bytes: usize) -> Option<Self> {
        let request_log = Some(self.request_log.as_ref()?.for_message(bytes));
        Some(Self { request_log, ..self.clone() })
    }

    /// Checks that a REST request carries the secret that its route requires, and that its key has the scope.
    ///
    /// # Errors
    /// `Forbidden`; `Unauthenticated` without a key.
    pub(crate) fn check_rest(&self, requirement: Requirement, headers: &HeaderMap) -> Result<()> {
        let Requirement::Category(category) = requirement else { return Ok(()) };
        self.app.config.access.check_rest(category, headers)?;
        self.check_scope(category)
    }

    /// Checks the metadata of a gRPC call, as [`Context::check_rest`] does.
    ///
    /// # Errors
    /// `Forbidden`; `Unauthenticated` without a key.
    pub(crate) fn check_grpc(&self, category: Category, headers: &HeaderMap) -> Result<()> {
        self.app.config.access.check_grpc(category, headers)?;
        self.check_scope(category)
    }

    /// Counts an inference request until the guard is dropped, within the limits of its client.
    ///
    /// # Errors
    /// Those of [`App::enter_sequence`]; `Throttled` beyond the limits of the client.
    pub(crate) fn enter_sequence(&self) -> Result<RequestGuard> {
        let guard = self.app.enter_sequence()?;
        let Some(key) = &self.key else { return Ok(guard) };
        let slot = key.enter(&self.client).map_err(|denied| self.refuse(denied))?;
        Ok(guard.with_slot(slot))
    }

    /// Checks that the request's key may see all models, for responses about all of them.
    ///
    /// # Errors
    /// `Forbidden`; `Unauthenticated` without a key.
    pub(crate) fn check_all_models(&self) -> Result<()> {
        self.key.as_ref().map_or(Ok(()), |key| key.check_all_models()).map_err(|denied| self.refuse(denied))
    }

    fn check_scope(&self, category: Category) -> Result<()> {
        self.key.as_ref().map_or(Ok(()), |key| key.check_scope(category)).map_err(|denied| self.refuse(denied))
    }

    /// Counts and logs a refusal, and returns its error.
    pub(crate) fn refuse(&self, denied: Denied) -> Error {
        if let Some(keys) = &self.app.keys {
            keys.refused(&denied, &self.client, (&self.app.metrics, &self.app.log));
        }
        denied.error
    }

    /// Returns the registered shared memory.
    ///
    /// # Errors
    /// `Unsupported` where the settings do not allow it.
    pub(crate) fn regions(&self) -> Result<&Regions> {
        match self.app.config.shared_memory {
            SharedMemory::On => Ok(&self.app.regions),
            SharedMemory::Local if self.local => Ok(&self.app.regions),
            SharedMemory::Local => Err(no_memory("is for loopback addresses and Unix sockets only")),
            SharedMemory::Off => Err(no_memory("is off")),
        }
    }

    /// Lists the extensions for `GET /v2` and `ServerMetadata`, by the names that Triton's clients expect.
    pub(crate) fn extensions(&self) -> Vec<&'static str> {
        let shared_memory = self.regions().is_ok().then_some("system_shared_memory");
        EXTENSIONS.iter().copied().chain(shared_memory).collect()
    }
}

fn no_memory(why: &str) -> Error {
    let text = format!("system shared memory {why}, as the server's setting 'shared_memory' has it");
    Error::new(Kind::Unsupported, text)
}
