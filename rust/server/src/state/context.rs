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

/// What a request's handler needs of its surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) app: Arc<App>,
    /// `None` where there is no I/O thread: a call in this process.
    pub(crate) completions: Option<CompletionQueue>,
    /// Where answers are shared with other servers; not for calls in this process.
    pub(crate) remote: Option<Arc<RemoteCache>>,
    /// Whether only programs on this machine come through here.
    pub(crate) local: bool,
}

impl Context {
    /// The registered shared memory.
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

    /// The protocol's extensions that `GET /v2` and `ServerMetadata` list, by the names that Triton's clients expect.
    pub(crate) fn extensions(&self) -> Vec<&'static str> {
        let shared_memory = self.regions().is_ok().then_some("system_shared_memory");
        EXTENSIONS.iter().copied().chain(shared_memory).collect()
    }
}

fn no_memory(why: &str) -> Error {
    let text = format!("system shared memory {why}, as the server's setting 'shared_memory' has it");
    Error::new(Kind::Unsupported, text)
}
