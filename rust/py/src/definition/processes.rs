//! Source of a model's processes: `penstock._spec.placement.Spawning`, or `Channels` of a process that attached it.

use crate::{control_channel::InstanceChannel, seconds::duration};
use penstock_core::ModelSpec;
use penstock_process::{Attached, Launch, Limits, Source};
use pyo3::prelude::*;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

/// `Spawning` or `Channels`.
#[derive(Debug, FromPyObject)]
pub(crate) enum Declared {
    Spawning(Spawning),
    Channels(Channels),
}

/// The attributes of `Channels`.
#[derive(Debug, FromPyObject)]
pub(crate) struct Channels {
    channels: Vec<Py<InstanceChannel>>,
}

/// The attributes of `Spawning`.
#[derive(Debug, FromPyObject)]
pub(crate) struct Spawning {
    program: String,
    arguments: Vec<String>,
    environments: Vec<Vec<(String, String)>>,
    payload: Vec<u8>,
    hang_after: Option<f64>,
    abandoned_after: Option<f64>,
    max_rss: Option<u64>,
    max_age: Option<f64>,
    max_batches: Option<u64>,
}

/// Source and limits of a model's processes.
#[derive(Debug)]
pub(crate) struct Processes {
    pub(crate) source: Source,
    pub(crate) limits: Arc<Limits>,
}

impl Processes {
    pub(crate) fn read(declared: Declared, spec: &ModelSpec) -> Self {
        let spawning = match declared {
            Declared::Spawning(spawning) => spawning,
            Declared::Channels(Channels { channels }) => {
                let channels = channels.iter().filter_map(|channel| channel.get().try_clone()).collect();
                let attached = Attached::new(channels, fingerprint(spec));
                return Self { source: Source::Attached(Arc::new(attached)), limits: Arc::default() };
            }
        };
        let Spawning { program, arguments, environments, payload, .. } = spawning;
        let launch =
            Launch { program, arguments, environments, payload: payload.into(), fingerprint: fingerprint(spec) };
        let limits = Limits {
            hang_after: spawning.hang_after.and_then(duration),
            abandoned_after: spawning.abandoned_after.and_then(duration),
            max_rss: spawning.max_rss,
            max_age: spawning.max_age.and_then(duration),
            max_batches: spawning.max_batches,
        };
        Self { source: Source::Spawn(Arc::new(launch)), limits: Arc::new(limits) }
    }
}

/// Returns a number that two processes of one build agree on if their signatures agree.
pub(crate) fn fingerprint(spec: &ModelSpec) -> u64 {
    let mut hasher = DefaultHasher::new();
    // The version policy belongs to the repository, and the process does not know it.
    format!("{:?}", ModelSpec { version_policy: Default::default(), ..spec.clone() }).hash(&mut hasher);
    hasher.finish()
}
