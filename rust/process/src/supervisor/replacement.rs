//! What an instance does beside serving: it looks after its process, replaces it, and lets it go.

use crate::supervisor::{
    exit_reason::{ExitReason, LoadFailure},
    instance::Instance,
    process::Process,
    serve::{LONGEST_BACK_OFF, Supervisor},
};
use penstock_core::{Error, Kind as ErrorKind};
use std::time::{Duration, Instant};

impl Supervisor<'_> {
    /// Looks after the process, and those before and behind it.
    pub(crate) fn look(&mut self) {
        self.retired.look();
        if self.process.as_mut().is_some_and(Process::has_ended) {
            return self.lost_idle();
        }
        if self.next.is_some() {
            return self.try_to_replace();
        }
        let Some(process) = &self.process else { return };
        let Some(end) = self.is_due(process) else { return };
        if Instant::now() < self.not_before || !self.instance.fleet.begin_replacing() {
            return;
        }
        match self.instance.begin() {
            Ok(next) => self.next = Some((next, end)),
            Err(failure) => self.not_replaced(&failure),
        }
    }

    fn is_due(&self, process: &Process) -> Option<ExitReason> {
        let limits = &self.instance.limits;
        if limits.max_batches.is_some_and(|most| process.batches >= most) {
            return Some(ExitReason::MaxBatches);
        }
        if limits.max_age.is_some_and(|most| process.started.elapsed() >= most) {
            return Some(ExitReason::MaxAge);
        }
        let limit = limits.max_rss?;
        process.rss().is_some_and(|rss| rss >= limit).then_some(ExitReason::MaxRss)
    }

    /// Puts the new process in the place of the old one, once it has loaded.
    fn try_to_replace(&mut self) {
        let Instance { queue, source, fleet, index, .. } = self.instance;
        let Some((mut next, end)) = self.next.take() else { return };
        match next.loaded(source.fingerprint()) {
            None => self.next = Some((next, end)),
            // What the old one holds for sequences would be lost.
            Some(Ok(())) if queue.sequences_of(*index) > 0 => {
                fleet.end_replacing();
                self.retired.add(next);
                self.not_before = Instant::now() + Duration::from_secs(1);
            }
            Some(Ok(())) => {
                fleet.end_replacing();
                queue.metrics().restarted(end.label());
                if let Some(old) = self.process.replace(next) {
                    self.instance
                        .say(format_args!("{end} (process {}) and was replaced", old.id().unwrap_or_default()));
                    self.retired.add(old);
                }
            }
            Some(Err(failure)) => self.not_replaced(&failure),
        }
    }

    fn not_replaced(&mut self, LoadFailure { summary, traceback }: &LoadFailure) {
        self.instance.fleet.end_replacing();
        self.not_before = Instant::now() + LONGEST_BACK_OFF;
        self.instance.say(format_args!("the old process stays, a new one could not load: {summary}\n{traceback}"));
    }

    /// Lets the process close its handler. What still waits has nobody who could compute it.
    pub(crate) fn close(mut self) {
        let Instance { queue, fleet, .. } = self.instance;
        if self.next.take().is_some() {
            fleet.end_replacing();
        }
        let last = match self.process.take() {
            Some(process) => {
                self.retired.add(process);
                fleet.down(queue.metrics())
            }
            None => fleet.is_empty(),
        };
        if last {
            let name = &queue.spec().name;
            let error = match self.instance.is_attached() && !queue.is_closed() {
                true => format!("model '{name}': {}", ExitReason::Left),
                false => format!("model '{name}' is shutting down"),
            };
            queue.cut_off(&Error::new(ErrorKind::Unavailable, error));
        }
        self.retired.wait();
    }
}
