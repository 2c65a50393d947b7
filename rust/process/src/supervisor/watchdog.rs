//! The wait for a process's answer: what may end it, and what is told to the process meanwhile.

use crate::{
    codec::batch::EncodedBatch,
    supervisor::{exit_reason::ExitReason, launch::Limits, process::Process},
    transport::{frame::Frame, socket::Received},
};
use penstock_core::{Job, queue::Queue};
use std::{
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often callers who left are looked for, where the handler may ask.
const LOOK_FOR_HANDLERS: Duration = Duration::from_millis(5);

/// How often otherwise.
const LOOK: Duration = Duration::from_millis(100);

/// How long a process may go on with a batch when its queue is closed, and so nobody waits for it.
pub(crate) const CLOSE_WITHIN: Duration = Duration::from_secs(4);

/// What limits a wait.
#[derive(Debug)]
pub(crate) struct Watchdog<'a> {
    limits: &'a Limits,
    queue: &'a Arc<Queue>,
    look: Duration,
    brisk: bool,
    /// When the process was last heard of.
    since: Instant,
    all_left_at: Option<Instant>,
    closed_at: Option<Instant>,
    heard: bool,
    unread: bool,
}

impl<'a> Watchdog<'a> {
    pub(crate) fn new(limits: &'a Limits, queue: &'a Arc<Queue>, brisk: bool) -> Self {
        let spec = queue.spec();
        let look = if spec.wants_context || spec.streams { LOOK_FOR_HANDLERS } else { LOOK };
        Self {
            limits,
            queue,
            look,
            brisk,
            since: Instant::now(),
            all_left_at: None,
            closed_at: None,
            heard: false,
            unread: false,
        }
    }

    /// Whether the process ended without having read what it was sent.
    pub(crate) fn was_unread(&self) -> bool {
        self.unread && !self.heard
    }

    /// The process may begin anew: time that it was not let go on does not count.
    pub(crate) fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// The next frame of the process.
    ///
    /// # Errors
    /// How the process ended; it is gone then.
    pub(crate) fn frame(
        &mut self,
        process: &mut Process,
        batch: Option<(&EncodedBatch, &Job)>,
    ) -> Result<(Frame, Option<OwnedFd>), ExitReason> {
        let first = if self.brisk { process.socket.watch() } else { process.socket.receive() };
        let mut received = first;
        loop {
            match received {
                Ok(Received::Frame(frame, descriptor)) => {
                    (self.since, self.heard) = (Instant::now(), true);
                    return Ok((frame, descriptor));
                }
                Ok(Received::Nothing) => {}
                Ok(Received::Ended { unread }) => {
                    self.unread = unread;
                    return Err(process.end());
                }
                Err(_) => return Err(killed(process, ExitReason::Broken)),
            }
            if let Err(end) = self.check(process, batch) {
                return Err(killed(process, end));
            }
            if process.socket.wait(process.pidfd(), self.patience()).is_err() {
                return Err(killed(process, ExitReason::Broken));
            }
            received = process.socket.receive();
            // A process of which a copy of its own holds the socket is gone all the same.
            if matches!(received, Ok(Received::Nothing)) && process.has_ended() {
                received = process.socket.receive();
                if matches!(received, Ok(Received::Nothing)) {
                    return Err(process.end());
                }
            }
        }
    }

    /// How long to wait before the limits are looked at again.
    fn patience(&self) -> Duration {
        let left = self.limits.hang_after.map(|limit| limit.saturating_sub(self.since.elapsed()));
        left.map_or(self.look, |left| self.look.min(left.max(Duration::from_millis(1))))
    }

    fn check(&mut self, process: &Process, batch: Option<(&EncodedBatch, &Job)>) -> Result<(), ExitReason> {
        let all_left = match (batch, process.input()) {
            (Some((written, job)), Some(region)) => written.tell_who_left(job, region),
            _ => false,
        };
        let now = Instant::now();
        let all_left_at = if all_left { Some(*self.all_left_at.get_or_insert(now)) } else { None };
        if let Some(after) = self.limits.hang_after
            && self.since.elapsed() >= after
        {
            return Err(ExitReason::Hung { after });
        }
        if let (Some(after), Some(at)) = (self.limits.abandoned_after, all_left_at)
            && at.elapsed() >= after
        {
            return Err(ExitReason::Abandoned { after });
        }
        if self.queue.is_closed() && self.closed_at.get_or_insert(now).elapsed() >= CLOSE_WITHIN {
            return Err(ExitReason::Stopped);
        }
        Ok(())
    }
}

fn killed(process: &mut Process, end: ExitReason) -> ExitReason {
    process.kill();
    end
}
