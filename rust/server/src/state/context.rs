//! Surroundings of a request: the server, its I/O thread and its listener.

use super::{app::App, remote_cache::RemoteCache};
use crate::{settings::SharedMemory, shared_memory::Regions};
use penstock_core::{CompletionQueue, Error, Kind, Result};
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
}

impl Context {
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
