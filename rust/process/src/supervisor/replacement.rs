//! Replacement of processes at their limits, and their end with the instance.

use crate::supervisor::{
    exit_reason::{ExitReason, LoadFailure},
    instance::Instance,
    process::Process,
    serve::{MAX_BACK_OFF, Supervisor},
};
use penstock_core::{Error, Kind as ErrorKind, queue::InstancePhase};
use std::time::{Duration, Instant};

impl Supervisor<'_> {
    /// Checks the process, its replacement and the retired ones.
    pub(crate) fn check_processes(&mut self) {
        self.retired.sweep();
        if self.process.as_mut().is_some_and(Process::has_ended) {
            return self.handle_idle_exit();
        }
        if self.next.is_some() {
            return self.try_replacement();
        }
        let Some(process) = &self.process else { return };
        let Some(reason) = self.replacement_reason(process) else { return };
        if Instant::now() < self.replace_after || !self.instance.pool.begin_replacement() {
            return;
        }
        match self.instance.spawn() {
            Ok(next) => self.next = Some((next, reason)),
            Err(failure) => self.replacement_failed(&failure),
        }
    }

    fn replacement_reason(&self, process: &Process) -> Option<ExitReason> {
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

    /// Replaces the old process once the new one has loaded.
    fn try_replacement(&mut self) {
        let Instance { queue, source, pool, index, .. } = self.instance;
        let Some((mut next, reason)) = self.next.take() else { return };
        match next.poll_loaded(source.fingerprint()) {
            None => self.next = Some((next, reason)),
            // The state that the old process holds for sequences would be lost.
            Some(Ok(())) if queue.sequences_of(*index) > 0 => {
                pool.end_replacement();
                self.retired.add(next);
                self.replace_after = Instant::now() + Duration::from_secs(1);
            }
            Some(Ok(())) => {
                pool.end_replacement();
                self.instance.count_restart(reason.label());
                self.instance.state().process_loaded(next.id());
                if let Some(old) = self.process.replace(next) {
                    self.instance
                        .log(format_args!("{reason} (process {}) and was replaced", old.id().unwrap_or_default()));
                    self.retired.add(old);
                }
            }
            Some(Err(failure)) => self.replacement_failed(&failure),
        }
    }

    fn replacement_failed(&mut self, LoadFailure { summary, traceback }: &LoadFailure) {
        self.instance.pool.end_replacement();
        self.replace_after = Instant::now() + MAX_BACK_OFF;
        self.instance.log(format_args!("the old process stays, a new one could not load: {summary}\n{traceback}"));
    }

    /// Stops the process, which closes its handler. Without other processes the waiting requests fail.
    pub(crate) fn close(mut self) {
        let Instance { queue, pool, .. } = self.instance;
        if self.next.take().is_some() {
            pool.end_replacement();
        }
        self.instance.state().process_ended();
        self.instance.state().set_phase(InstancePhase::Ended);
        let last = match self.process.take() {
            Some(process) => {
                self.retired.add(process);
                pool.remove(queue.metrics())
            }
            None => pool.is_empty(),
        };
        if last {
            let name = &queue.spec().name;
            let error = match self.instance.is_attached() && !queue.is_closed() {
                true => format!("model '{name}': {}", ExitReason::Detached),
                false => format!("model '{name}' is shutting down"),
            };
            queue.fail_waiting(&Error::new(ErrorKind::Unavailable, error));
        }
        self.retired.wait();
    }
}
