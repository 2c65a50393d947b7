//! Sources and limits of a model's processes.

use crate::transport::control_channel::InstanceChannel;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The source of an instance's processes.
#[derive(Clone, Debug)]
pub enum Source {
    /// The server starts them, each time one is needed.
    Spawn(Arc<Launch>),
    /// One process, which attached itself.
    Attached(Arc<Attached>),
}

/// The instances of a model that a process attached.
#[derive(Debug)]
pub struct Attached {
    channels: Mutex<Vec<Option<InstanceChannel>>>,
    fingerprint: u64,
}

impl Attached {
    /// Creates it from one channel per instance, and the signature's fingerprint.
    pub fn new(channels: Vec<InstanceChannel>, fingerprint: u64) -> Self {
        Self { channels: Mutex::new(channels.into_iter().map(Some).collect()), fingerprint }
    }

    /// Takes the channel of an instance; `None` after the first time.
    pub(crate) fn take(&self, index: usize) -> Option<InstanceChannel> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index)?.take()
    }
}

impl Source {
    /// The fingerprint that a process has to report when it has loaded.
    pub(crate) fn fingerprint(&self) -> u64 {
        match self {
            Self::Spawn(launch) => launch.fingerprint,
            Self::Attached(attached) => attached.fingerprint,
        }
    }
}

/// A program that runs a [`crate::Worker`] and loads the payload that it receives.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The environment variables of each instance; the last entry applies to further instances.
    pub environments: Vec<Vec<(String, String)>>,
    /// The payload that it receives, in a format of the program.
    pub payload: Arc<[u8]>,
    /// The fingerprint that a process has to report, so that both sides have the same signature.
    pub fingerprint: u64,
}

/// Limits after which a process is killed or replaced.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The time after which a batch counts as hung.
    pub hang_after: Option<Duration>,
    /// The time that a batch may compute after its last client has disconnected.
    pub abandoned_after: Option<Duration>,
    /// The resident memory in bytes from which on a process is replaced.
    pub max_rss: Option<u64>,
    /// The age from which on a process is replaced.
    pub max_age: Option<Duration>,
    /// The number of batches after which a process is replaced.
    pub max_batches: Option<u64>,
}

impl Launch {
    /// The environment variables of an instance.
    pub(crate) fn environment(&self, index: usize) -> &[(String, String)] {
        let entry = self.environments.get(index).or(self.environments.last());
        entry.map_or(&[], Vec::as_slice)
    }
}
