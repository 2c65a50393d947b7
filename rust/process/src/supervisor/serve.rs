//! Supervisor of an instance: one thread that pulls batches, sends them to its process, and restarts the process.

use crate::{
    codec::batch::EncodedBatch,
    supervisor::{
        exchange::{read_last, stream},
        exit_reason::{ExitReason, LoadFailure},
        instance::{Instance, POLL_INTERVAL},
        process::Process,
        retire::Retired,
        watchdog::Watchdog,
    },
    transport::frame::Kind,
};
use penstock_core::{Error, Job, Kind as ErrorKind, Pulled, SequenceId, Work, queue::InstancePhase};
use std::{
    io,
    time::{Duration, Instant},
};

/// The first delay before a restart; it doubles until a process has served.
const MIN_BACK_OFF: Duration = Duration::from_millis(100);
/// The longest delay before a restart.
pub(crate) const MAX_BACK_OFF: Duration = Duration::from_secs(30);

/// The handler time below which both ends poll instead of sleeping, because waking up would take longer. The time of
/// the exchange does not count: it is long because the ends sleep.
const FAST: Duration = Duration::from_micros(100);

/// An instance with its processes.
#[derive(Debug)]
pub(crate) struct Supervisor<'a> {
    pub(crate) instance: &'a Instance,
    pub(crate) process: Option<Process>,
    /// The replacement of `process`, while it loads, and the reason for it.
    pub(crate) next: Option<(Process, ExitReason)>,
    pub(crate) retired: Retired,
    back_off: Duration,
    checked: Instant,
    /// The time of the next attempt after a failed replacement.
    pub(crate) replace_after: Instant,
    /// The recent time of the handler, smoothed.
    handler_time: Duration,
}

impl Instance {
    /// Starts a process, reports to `on_loaded` whether it has loaded, and serves until the queue is closed.
    ///
    /// Blocks its thread. The kernel kills the processes when that thread ends.
    pub fn run(self, on_loaded: impl FnOnce(Result<(), LoadFailure>)) {
        let process = match self.start() {
            Ok(process) => process,
            Err(failure) => return on_loaded(Err(failure)),
        };
        self.pool.add(self.queue.metrics());
        self.state().process_loaded(process.id());
        on_loaded(Ok(()));
        Supervisor::new(&self, process).run();
    }
}

impl<'a> Supervisor<'a> {
    /// A supervisor of a process that has loaded.
    fn new(instance: &'a Instance, process: Process) -> Self {
        let now = Instant::now();
        Self {
            instance,
            process: Some(process),
            next: None,
            retired: Retired::default(),
            back_off: MIN_BACK_OFF,
            checked: now,
            replace_after: now,
            handler_time: Duration::MAX,
        }
    }

    /// Serves until the queue is closed.
    fn run(mut self) {
        loop {
            if self.process.is_none() && !self.restart_process(true) {
                break;
            }
            if self.checked.elapsed() >= POLL_INTERVAL {
                self.checked = Instant::now();
                self.check_processes();
                continue;
            }
            match self.instance.queue.next_within(self.instance.index, POLL_INTERVAL) {
                Pulled::Work(Work::Batch(job)) => self.compute(job),
                Pulled::Work(Work::Over(ids)) => self.end_sequences(&ids),
                Pulled::Nothing => {}
                Pulled::Closed => break,
            }
        }
        self.close();
    }

    /// Computes a batch. A second process gets it only if the first one ended without reading it.
    fn compute(&mut self, mut job: Job) {
        job.merge_inputs();
        let spins = self.handler_time < FAST && !job.spec().streams;
        while let Some((sent_job, sent)) = self.send(job, spins) {
            match self.receive(sent_job, &sent, spins) {
                None => return,
                Some(unread) => job = unread,
            }
        }
    }

    /// Sends a batch to a living process, which may have to be started. Without one, the batch fails.
    fn send(&mut self, job: Job, spins: bool) -> Option<(Job, EncodedBatch)> {
        loop {
            if self.process.as_mut().is_some_and(Process::has_ended) {
                self.handle_idle_exit();
            }
            if self.process.is_none() && !self.restart_process(false) {
                let name = &job.spec().name;
                let error = match self.instance.is_attached() {
                    true => format!("model '{name}': {}", ExitReason::Detached),
                    false => format!("model '{name}': its process cannot be started again"),
                };
                job.finish(Err(Error::new(ErrorKind::Unavailable, error)));
                return None;
            }
            let Some(process) = &mut self.process else { continue };
            let error = match process.send(&job, spins) {
                Ok(batch) => return Some((job, batch)),
                Err(error) => error,
            };
            // Its socket closes shortly before its exit is visible. It has not seen a batch that could not be sent.
            let gone = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
            if gone || process.has_ended() {
                self.handle_idle_exit();
                continue;
            }
            if error.kind() == io::ErrorKind::WouldBlock {
                self.fail(job, ExitReason::ProtocolError);
            } else {
                let error = ExitReason::NoMemory.error(job.spec());
                job.finish(Err(error));
            }
            return None;
        }
    }

    /// ResponseRegions a batch that a process has. Gives it back if the process ended without a look at it.
    fn receive(&mut self, job: Job, sent: &EncodedBatch, spins: bool) -> Option<Job> {
        let process = self.process.as_mut()?;
        let begun = Instant::now();
        let mut watchdog = Watchdog::new(&self.instance.limits, &self.instance.queue, spins);
        let (frame, descriptor) = match watchdog.next_frame(process, Some((sent, &job))) {
            Ok(received) => received,
            Err(end) if watchdog.was_unread() => {
                let _ = self.handle_exit(end);
                self.instance.queue.forget_sequences(self.instance.index);
                return Some(job);
            }
            Err(end) => {
                self.fail(job, end);
                return None;
            }
        };
        if job.spec().streams {
            let mut streaming = job.stream();
            match stream(process, &mut watchdog, sent, &mut streaming, (frame, descriptor)) {
                Ok(result) => {
                    streaming.finish(result.map(|output| output.times));
                    self.record_success();
                }
                Err(end) => {
                    let error = self.handle_exit(end);
                    self.instance.queue.forget_sequences(self.instance.index);
                    streaming.finish(Err(error));
                }
            }
            return None;
        }
        match read_last(process, &frame, descriptor, &job) {
            Ok(result) => {
                let took = result.as_ref().map_or_else(|_| begun.elapsed(), |output| output.times.handler);
                self.handler_time =
                    if self.handler_time > FAST * 8 { took } else { (self.handler_time * 3 + took) / 4 };
                job.finish(result);
                self.record_success();
            }
            Err(end) => self.fail(job, end),
        }
        None
    }

    fn record_success(&mut self) {
        self.back_off = MIN_BACK_OFF;
        if let Some(process) = &mut self.process {
            process.batches += 1;
        }
    }

    fn fail(&mut self, job: Job, reason: ExitReason) {
        let error = self.handle_exit(reason);
        // First, so that no client that gets the error continues a sequence whose state is lost.
        self.instance.queue.forget_sequences(self.instance.index);
        job.finish(Err(error));
    }

    /// Removes the process, which has to end or has ended. Returns the error for the clients of its batch.
    fn handle_exit(&mut self, reason: ExitReason) -> Error {
        let Instance { queue, pool, .. } = self.instance;
        let mut reason = reason;
        if let Some(mut process) = self.process.take() {
            process.kill();
            pool.remove(queue.metrics());
            self.instance.state().process_ended();
            if process.is_attached() {
                reason = reason.for_attached();
            } else {
                self.instance.count_restart(reason.label());
            }
            match process.id() {
                Some(id) => self.instance.log(format_args!("{reason} (process {id})")),
                None => self.instance.log(format_args!("{reason}")),
            }
        }
        reason.error(queue.spec())
    }

    /// Removes a process that ended without a batch.
    pub(crate) fn handle_idle_exit(&mut self) {
        let Some(process) = &mut self.process else { return };
        let end = process.reap();
        let _ = self.handle_exit(end);
        self.instance.queue.forget_sequences(self.instance.index);
    }

    /// Sends the process the ids of sequences that have ended.
    fn end_sequences(&mut self, ids: &[SequenceId]) {
        let Some(process) = &mut self.process else { return };
        let mut watchdog = Watchdog::new(&self.instance.limits, &self.instance.queue, false);
        let done = match process.send_end_of_sequences(ids) {
            Ok(()) => watchdog.next_frame(process, None).and_then(|(frame, _)| {
                if process.accepts(&frame) && frame.kind == Kind::Done {
                    Ok(())
                } else {
                    Err(ExitReason::ProtocolError)
                }
            }),
            Err(_) => Err(process.reap()),
        };
        if let Err(end) = done {
            let _ = self.handle_exit(end);
            self.instance.queue.forget_sequences(self.instance.index);
        }
    }

    /// Starts a process after a delay. With `persist` it tries until one has loaded or the queue is closed. Returns
    /// whether there is a process.
    fn restart_process(&mut self, persist: bool) -> bool {
        if self.instance.is_attached() {
            return false;
        }
        if self.next.take().is_some() {
            self.instance.pool.end_replacement();
        }
        let Instance { queue, pool, .. } = self.instance;
        let state = self.instance.state();
        loop {
            state.set_phase(InstancePhase::BackingOff);
            let until = Instant::now() + self.back_off;
            self.back_off = (self.back_off * 2).min(MAX_BACK_OFF);
            while Instant::now() < until {
                if queue.is_closed() {
                    return false;
                }
                self.retired.sweep();
                std::thread::sleep(Duration::from_millis(20).min(until.saturating_duration_since(Instant::now())));
            }
            state.set_phase(InstancePhase::Loading);
            match self.instance.start() {
                Ok(process) => {
                    state.process_loaded(process.id());
                    state.set_phase(InstancePhase::Serving);
                    self.process = Some(process);
                    pool.add(queue.metrics());
                    return true;
                }
                Err(_) if queue.is_closed() => return false,
                Err(LoadFailure { summary, traceback }) => {
                    self.instance.count_restart("load_failed");
                    self.instance.log(format_args!("its process could not load it again: {summary}\n{traceback}"));
                }
            }
            if !persist {
                return false;
            }
        }
    }
}
