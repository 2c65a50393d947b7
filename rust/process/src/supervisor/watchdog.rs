//! Watchdog of a process that computes: waits for its next frame, enforces limits, forwards cancellations.

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

/// The interval of checks for disconnected clients, where the handler can see them.
const POLL_FOR_HANDLERS: Duration = Duration::from_millis(5);

/// The interval otherwise.
const POLL: Duration = Duration::from_millis(100);

/// The time that a process may continue with a batch after its queue was closed.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(4);

/// A wait for the frames of one batch.
#[derive(Debug)]
pub(crate) struct Watchdog<'a> {
    limits: &'a Limits,
    queue: &'a Arc<Queue>,
    interval: Duration,
    spins: bool,
    /// The time of the last frame.
    since: Instant,
    all_left_at: Option<Instant>,
    closed_at: Option<Instant>,
    received: bool,
    unread: bool,
}

impl<'a> Watchdog<'a> {
    pub(crate) fn new(limits: &'a Limits, queue: &'a Arc<Queue>, spins: bool) -> Self {
        let spec = queue.spec();
        let interval = if spec.wants_context || spec.streams { POLL_FOR_HANDLERS } else { POLL };
        Self {
            limits,
            queue,
            interval,
            spins,
            since: Instant::now(),
            all_left_at: None,
            closed_at: None,
            received: false,
            unread: false,
        }
    }

    /// Returns whether the process ended without reading the batch.
    pub(crate) fn was_unread(&self) -> bool {
        self.unread && !self.received
    }

    /// Restarts the time limits: the time that the process had to wait does not count.
    pub(crate) fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// Waits for the next frame of the process.
    ///
    /// # Errors
    /// The exit reason of the process, which has ended.
    pub(crate) fn next_frame(
        &mut self,
        process: &mut Process,
        batch: Option<(&EncodedBatch, &Job)>,
    ) -> Result<(Frame, Option<OwnedFd>), ExitReason> {
        let first = if self.spins { process.socket.receive_spinning() } else { process.socket.receive() };
        let mut received = first;
        loop {
            match received {
                Ok(Received::Frame(frame, descriptor)) => {
                    (self.since, self.received) = (Instant::now(), true);
                    return Ok((frame, descriptor));
                }
                Ok(Received::Nothing) => {}
                Ok(Received::Closed { unread }) => {
                    self.unread = unread;
                    return Err(process.reap());
                }
                Err(_) => return Err(killed(process, ExitReason::ProtocolError)),
            }
            if let Err(reason) = self.check(process, batch) {
                return Err(killed(process, reason));
            }
            if process.socket.wait(process.pidfd(), self.next_check()).is_err() {
                return Err(killed(process, ExitReason::ProtocolError));
            }
            received = process.socket.receive();
            // A forked copy of the process may hold the socket open.
            if matches!(received, Ok(Received::Nothing)) && process.has_ended() {
                received = process.socket.receive();
                if matches!(received, Ok(Received::Nothing)) {
                    return Err(process.reap());
                }
            }
        }
    }

    /// The time until the next check of the limits.
    fn next_check(&self) -> Duration {
        let left = self.limits.hang_after.map(|limit| limit.saturating_sub(self.since.elapsed()));
        left.map_or(self.interval, |left| self.interval.min(left.max(Duration::from_millis(1))))
    }

    fn check(&mut self, process: &Process, batch: Option<(&EncodedBatch, &Job)>) -> Result<(), ExitReason> {
        let all_left = match (batch, process.input()) {
            (Some((batch, job)), Some(region)) => batch.mark_disconnected(job, region),
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
        if self.queue.is_closed() && self.closed_at.get_or_insert(now).elapsed() >= CLOSE_TIMEOUT {
            return Err(ExitReason::Stopped);
        }
        Ok(())
    }
}

fn killed(process: &mut Process, reason: ExitReason) -> ExitReason {
    process.kill();
    reason
}
