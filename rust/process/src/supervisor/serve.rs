//! An instance at work: it pulls batches, hands them to its process, and starts the process again.

use crate::{
    codec::batch::EncodedBatch,
    supervisor::{
        exchange::{answer, stream},
        exit_reason::{ExitReason, LoadFailure},
        instance::{Instance, POLL_INTERVAL},
        process::Process,
        retire::Retired,
        watchdog::Watchdog,
    },
    transport::frame::Kind,
};
use penstock_core::{Error, Job, Kind as ErrorKind, Pulled, SequenceId, Work};
use std::{
    io,
    time::{Duration, Instant},
};

/// The wait before a process is started again, which doubles each time until one has served.
const FIRST_BACK_OFF: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);

/// A process whose handler takes less is watched for awake: to sleep would take longer. What the way there and back takes
/// does not count: it is long because one sleeps.
const BRISK: Duration = Duration::from_micros(100);

/// An instance that serves.
#[derive(Debug)]
pub(crate) struct Supervisor<'a> {
    pub(crate) instance: &'a Instance,
    pub(crate) process: Option<Process>,
    /// One that loads, to take the place of `process`.
    pub(crate) next: Option<(Process, ExitReason)>,
    pub(crate) retired: Retired,
    back_off: Duration,
    looked: Instant,
    /// When a replacement may be tried again after one failed.
    pub(crate) not_before: Instant,
    /// How long the handler took of late, smoothed.
    handler: Duration,
}

impl Instance {
    /// Starts a process, says on `built` whether it has loaded, and serves until the queue is closed.
    ///
    /// Blocks; on a thread of its own, which its processes do not outlive: the kernel kills them with it.
    pub fn run(self, built: impl FnOnce(Result<(), LoadFailure>)) {
        let process = match self.start() {
            Ok(process) => process,
            Err(failure) => return built(Err(failure)),
        };
        self.fleet.up(self.queue.metrics());
        built(Ok(()));
        Supervisor::new(&self, process).run();
    }
}

impl<'a> Supervisor<'a> {
    /// One that has a process.
    pub(crate) fn new(instance: &'a Instance, process: Process) -> Self {
        let now = Instant::now();
        Self {
            instance,
            process: Some(process),
            next: None,
            retired: Retired::default(),
            back_off: FIRST_BACK_OFF,
            looked: now,
            not_before: now,
            handler: Duration::MAX,
        }
    }

    /// Serves until the queue is closed.
    pub(crate) fn run(mut self) {
        loop {
            if self.process.is_none() && !self.revive(true) {
                break;
            }
            if self.looked.elapsed() >= POLL_INTERVAL {
                self.looked = Instant::now();
                self.look();
                continue;
            }
            match self.instance.queue.next_within(self.instance.index, POLL_INTERVAL) {
                Pulled::Work(Work::Batch(job)) => self.compute(job),
                Pulled::Work(Work::Over(ids)) => self.let_go(&ids),
                Pulled::Nothing => {}
                Pulled::Closed => break,
            }
        }
        self.close();
    }

    /// Computes a batch. It is handed to a second process only if the first one ended without a look at it.
    fn compute(&mut self, mut job: Job) {
        job.fill_up();
        let brisk = self.handler < BRISK && !job.spec().streams;
        while let Some((handed, sent)) = self.hand_over(job, brisk) {
            match self.answer(handed, &sent, brisk) {
                None => return,
                Some(unread) => job = unread,
            }
        }
    }

    /// Hands a batch to a process that lives, which may have to be started. If there is none, the batch is
    /// answered here.
    fn hand_over(&mut self, job: Job, brisk: bool) -> Option<(Job, EncodedBatch)> {
        loop {
            if self.process.as_mut().is_some_and(Process::has_ended) {
                self.lost_idle();
            }
            if self.process.is_none() && !self.revive(false) {
                let name = &job.spec().name;
                let error = match self.instance.is_attached() {
                    true => format!("model '{name}': {}", ExitReason::Left),
                    false => format!("model '{name}': its process cannot be started again"),
                };
                job.finish(Err(Error::new(ErrorKind::Unavailable, error)));
                return None;
            }
            let Some(process) = &mut self.process else { continue };
            let error = match process.send(&job, brisk) {
                Ok(written) => return Some((job, written)),
                Err(error) => error,
            };
            // Its socket closes a moment before it is seen to be gone; what could not be sent, it has not seen.
            let gone = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
            if gone || process.has_ended() {
                self.lost_idle();
                continue;
            }
            if error.kind() == io::ErrorKind::WouldBlock {
                self.failed(job, ExitReason::Broken);
            } else {
                let error = ExitReason::NoMemory.error(job.spec());
                job.finish(Err(error));
            }
            return None;
        }
    }

    /// ResponseRegions a batch that a process has. Gives it back if the process ended without a look at it.
    fn answer(&mut self, job: Job, sent: &EncodedBatch, brisk: bool) -> Option<Job> {
        let process = self.process.as_mut()?;
        let begun = Instant::now();
        let mut watch = Watchdog::new(&self.instance.limits, &self.instance.queue, brisk);
        let (frame, descriptor) = match watch.frame(process, Some((sent, &job))) {
            Ok(received) => received,
            Err(end) if watch.was_unread() => {
                let _ = self.went_down(end);
                self.instance.queue.forget_sequences(self.instance.index);
                return Some(job);
            }
            Err(end) => {
                self.failed(job, end);
                return None;
            }
        };
        if job.spec().streams {
            let mut streaming = job.stream();
            match stream(process, &mut watch, sent, &mut streaming, (frame, descriptor)) {
                Ok(result) => {
                    streaming.finish(result.map(|output| output.times));
                    self.served();
                }
                Err(end) => {
                    let error = self.went_down(end);
                    self.instance.queue.forget_sequences(self.instance.index);
                    streaming.finish(Err(error));
                }
            }
            return None;
        }
        match answer(process, &frame, descriptor, &job) {
            Ok(result) => {
                let took = result.as_ref().map_or_else(|_| begun.elapsed(), |output| output.times.handler);
                self.handler = if self.handler > BRISK * 8 { took } else { (self.handler * 3 + took) / 4 };
                job.finish(result);
                self.served();
            }
            Err(end) => self.failed(job, end),
        }
        None
    }

    fn served(&mut self) {
        self.back_off = FIRST_BACK_OFF;
        if let Some(process) = &mut self.process {
            process.batches += 1;
        }
    }

    fn failed(&mut self, job: Job, end: ExitReason) {
        let error = self.went_down(end);
        // First, so that nobody who hears of it goes on from what the process held.
        self.instance.queue.forget_sequences(self.instance.index);
        job.finish(Err(error));
    }

    /// The process is gone. What callers of its batch are told.
    fn went_down(&mut self, end: ExitReason) -> Error {
        let Instance { queue, fleet, .. } = self.instance;
        let mut end = end;
        if let Some(mut process) = self.process.take() {
            process.kill();
            fleet.down(queue.metrics());
            if process.is_guest() {
                end = end.of_a_guest();
            } else {
                queue.metrics().restarted(end.label());
            }
            match process.id() {
                Some(id) => self.instance.say(format_args!("{end} (process {id})")),
                None => self.instance.say(format_args!("{end}")),
            }
        }
        end.error(queue.spec())
    }

    /// The process is gone, and there was no batch in it.
    pub(crate) fn lost_idle(&mut self) {
        let Some(process) = &mut self.process else { return };
        let end = process.end();
        let _ = self.went_down(end);
        self.instance.queue.forget_sequences(self.instance.index);
    }

    /// Tells the process of sequences that are over.
    fn let_go(&mut self, ids: &[SequenceId]) {
        let Some(process) = &mut self.process else { return };
        let mut watch = Watchdog::new(&self.instance.limits, &self.instance.queue, false);
        let done = match process.send_over(ids) {
            Ok(()) => watch.frame(process, None).and_then(|(frame, _)| {
                if process.answers(&frame) && frame.kind == Kind::Done { Ok(()) } else { Err(ExitReason::Broken) }
            }),
            Err(_) => Err(process.end()),
        };
        if let Err(end) = done {
            let _ = self.went_down(end);
            self.instance.queue.forget_sequences(self.instance.index);
        }
    }

    /// Starts a process again, after a wait; and if that fails, with `persist` again and again. Whether there
    /// is one.
    fn revive(&mut self, persist: bool) -> bool {
        if self.instance.is_attached() {
            return false;
        }
        if self.next.take().is_some() {
            self.instance.fleet.end_replacing();
        }
        let Instance { queue, fleet, .. } = self.instance;
        loop {
            let until = Instant::now() + self.back_off;
            self.back_off = (self.back_off * 2).min(LONGEST_BACK_OFF);
            while Instant::now() < until {
                if queue.is_closed() {
                    return false;
                }
                self.retired.look();
                std::thread::sleep(Duration::from_millis(20).min(until.saturating_duration_since(Instant::now())));
            }
            match self.instance.start() {
                Ok(process) => {
                    self.process = Some(process);
                    fleet.up(queue.metrics());
                    return true;
                }
                Err(_) if queue.is_closed() => return false,
                Err(LoadFailure { summary, traceback }) => {
                    queue.metrics().restarted("load_failed");
                    self.instance.say(format_args!("its process could not load it again: {summary}\n{traceback}"));
                }
            }
            if !persist {
                return false;
            }
        }
    }
}
