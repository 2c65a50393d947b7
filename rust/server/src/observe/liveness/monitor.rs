//! The thread that reads the counters.

use super::{
    stall_clock::{Reading, Stall, StallClock, Subject},
    state::Liveness,
};
use crate::{
    observe::Log,
    settings::{LogLevel, ReadStacks, StallSettings},
};
use penstock_core::{Model, Registry, metrics::Metrics, queue::Activity};
use std::{
    process,
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// The server, as its monitor sees it.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) settings: StallSettings,
    /// The monitor outlives no server.
    pub(crate) registry: Weak<Registry>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Arc<Log>,
    pub(crate) stacks: ReadStacks,
    /// Notifies of each change of readiness.
    pub(crate) changes: watch::Sender<()>,
}

impl Watched {
    /// Starts the monitor once the server or one of its models has a timeout, and ends then.
    pub(crate) async fn start_when_needed(self) {
        let mut changes = self.changes.subscribe();
        while !self.start_if_needed() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Starts the monitor if there is a timeout. Returns whether it runs.
    fn start_if_needed(&self) -> bool {
        let is_needed = self.settings.timeout.is_some() || self.smallest_timeout().is_some();
        if is_needed && !self.liveness.has_started() {
            let watched = self.clone();
            self.liveness.start(move || watched.run());
        }
        is_needed
    }

    fn run(self) {
        let (mut clock, mut last, mut round) = (StallClock::default(), Instant::now(), 0);
        while !self.liveness.has_ended() {
            let interval = StallSettings::interval(self.smallest_timeout().unwrap_or(Duration::MAX));
            thread::park_timeout(interval);
            let Some(registry) = self.registry.upgrade() else { return };
            let elapsed = last.elapsed();
            last = Instant::now();
            round += 1;
            // A longer step means that this thread did not run.
            let (found, healed) = clock.advance(self.readings(&registry), elapsed.min(interval * 2), round);
            drop(registry);
            self.report(&found, &healed);
        }
    }

    fn smallest_timeout(&self) -> Option<Duration> {
        let models = self.registry.upgrade().map(|registry| registry.all()).unwrap_or_default();
        models.iter().filter_map(|model| self.timeout_of(model)).chain(self.settings.timeout).min()
    }

    fn timeout_of(&self, model: &Model) -> Option<Duration> {
        model.spec().stall_timeout.or(self.settings.timeout).filter(|timeout| !timeout.is_zero())
    }

    fn readings(&self, registry: &Registry) -> Vec<Reading> {
        let mut readings = Vec::new();
        let mut add = |subject, count, activity, timeout| readings.push(Reading { subject, count, activity, timeout });
        for model in registry.all() {
            let Some(timeout) = self.timeout_of(&model) else { continue };
            let (name, version) = (&model.spec().name, &model.spec().version);
            for (index, (count, activity)) in model.queue().progress().into_iter().enumerate() {
                add(Subject::Instance(Arc::clone(name), Arc::clone(version), index), count, activity, timeout);
            }
        }
        if let Some(timeout) = self.settings.timeout {
            for model in registry.all() {
                let (name, version) = (&model.spec().name, &model.spec().version);
                // A batch may wait for more requests for so long.
                let delay = model.spec().batching.as_ref().map_or(0, |batching| batching.max_delay_ns);
                let timeout = timeout + Duration::from_nanos(delay);
                let subject = Subject::Queue(Arc::clone(name), Arc::clone(version));
                add(subject, model.queue().unserved(), Activity::Batch, timeout);
            }
            if let Some(probe) = &self.settings.interpreter {
                add(Subject::Interpreter, probe.waiting(), Activity::Batch, timeout);
            }
            for (subject, count) in self.liveness.beats() {
                add(subject, Some(count), Activity::Batch, timeout);
            }
        }
        readings
    }

    fn report(&self, found: &[Stall], healed: &[Subject]) {
        for subject in healed {
            self.metrics.stalls.set_stalled(subject.labels(), false);
            self.log.event(LogLevel::Info, &format!("{subject} makes progress again"));
        }
        let stalled = found.iter().find(|one| one.stalled).map(|one| one.reason.clone());
        let suspected = found.first().map(|one| stalled.clone().unwrap_or_else(|| one.reason.clone()));
        if self.liveness.set(stalled, suspected) {
            self.changes.send_replace(());
        }
        for one in found.iter().filter(|one| one.is_new) {
            self.metrics.stalls.set_stalled(one.subject.labels(), true);
            let stacks = (self.stacks)(process::id()).unwrap_or_else(|problem| problem);
            self.log.event_with(LogLevel::Error, &format!("the server is not live: {}", one.reason), &stacks);
        }
    }
}
