//! Where the processes of a model come from, and when they are ended.

use crate::transport::control_channel::InstanceChannel;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Where an instance's processes come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// They are started, again and again.
    Start(Arc<Launch>),
    /// There is one only, which came by itself.
    Attached(Arc<Attached>),
}

/// The instances of a model that a process has attached.
#[derive(Debug)]
pub struct Attached {
    channels: Mutex<Vec<Option<InstanceChannel>>>,
    fingerprint: u64,
}

impl Attached {
    /// A channel for each instance, and the fingerprint that all must have.
    pub fn new(channels: Vec<InstanceChannel>, fingerprint: u64) -> Self {
        Self { channels: Mutex::new(channels.into_iter().map(Some).collect()), fingerprint }
    }

    /// An instance's channel, which there is once.
    pub(crate) fn take(&self, index: usize) -> Option<InstanceChannel> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index)?.take()
    }
}

impl Source {
    /// What a process must answer when it has loaded.
    pub(crate) fn fingerprint(&self) -> u64 {
        match self {
            Self::Start(launch) => launch.fingerprint,
            Self::Attached(attached) => attached.fingerprint,
        }
    }
}

/// A program that makes itself a [`crate::Worker`] and loads what it is sent.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What is different in the environment of each instance; the last entry serves those beyond.
    pub environments: Vec<Vec<(String, String)>>,
    /// What it is sent once it runs. For the program to understand.
    pub payload: Arc<[u8]>,
    /// What a process must answer when it has loaded, so that both speak of one signature.
    pub fingerprint: u64,
}

/// When a process is killed, and when it is replaced.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// A batch that computes for longer is taken to hang.
    pub hang_after: Option<Duration>,
    /// A batch that computes for so long after the last of its callers has left is given up.
    pub abandoned_after: Option<Duration>,
    /// From this size of its resident memory on a process is replaced, in bytes.
    pub max_rss: Option<u64>,
    /// From this age on.
    pub max_age: Option<Duration>,
    /// After so many batches.
    pub max_batches: Option<u64>,
}

impl Launch {
    /// The environment of an instance.
    pub(crate) fn environment(&self, index: usize) -> &[(String, String)] {
        let entry = self.environments.get(index).or(self.environments.last());
        entry.map_or(&[], Vec::as_slice)
    }
}
