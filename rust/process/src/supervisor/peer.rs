//! Who is at the other end: a process that this one has started, or one that came by itself.

use crate::{
    supervisor::{
        exit_reason::{ExitReason, out_of_memory_kills},
        stdio::StdioForwarder,
    },
    transport::socket::Socket,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    process::Child,
    time::{Duration, Instant},
};

/// The other end of a socket.
#[derive(Debug)]
pub(crate) enum Peer {
    /// It was started here, and ends with this.
    Child {
        child: Child,
        lines: StdioForwarder,
        /// Ready to be read once it has ended; `None` where the kernel gives none.
        pidfd: Option<OwnedFd>,
        kills_before: u64,
    },
    /// It attached itself: it is no child, and not ours to end. Its socket says whether it is there.
    Guest,
}

impl Peer {
    /// A process that was just started, when the kernel had killed so many for lack of memory.
    pub(crate) fn child(mut child: Child, model: &str, kills_before: u64) -> io::Result<Self> {
        let lines = StdioForwarder::of(model, &mut child)?;
        let pidfd = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pidfd = pidfd.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Self::Child { child, lines, pidfd, kills_before })
    }

    pub(crate) fn is_guest(&self) -> bool {
        matches!(self, Self::Guest)
    }

    /// The number of a child.
    pub(crate) fn id(&self) -> Option<u32> {
        match self {
            Self::Child { child, .. } => Some(child.id()),
            Self::Guest => None,
        }
    }

    pub(crate) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Child { pidfd, .. } => pidfd.as_ref().map(|pidfd| pidfd.as_fd()),
            Self::Guest => None,
        }
    }

    /// How it ended, if it has.
    pub(crate) fn status(&mut self, socket: &Socket) -> Option<ExitReason> {
        match self {
            Self::Child { child, kills_before, .. } => {
                let lacked_memory = out_of_memory_kills() > *kills_before;
                child.try_wait().ok().flatten().map(|status| ExitReason::of(status, lacked_memory))
            }
            Self::Guest => socket.is_closed().then_some(ExitReason::Left),
        }
    }

    /// Whether it has ended, without asking the kernel more than that.
    pub(crate) fn has_ended(&mut self, socket: &Socket) -> bool {
        match self {
            Self::Child { pidfd: Some(pidfd), .. } => Socket::is_ready(pidfd.as_fd()),
            Self::Child { .. } | Self::Guest => self.status(socket).is_some(),
        }
    }

    /// How it ended; a child that has not though it closed its socket is ended here.
    pub(crate) fn end(&mut self, socket: &Socket) -> ExitReason {
        if self.is_guest() {
            self.kill(socket);
            return ExitReason::Left;
        }
        // Its socket may close a moment before it is gone.
        let until = Instant::now() + Duration::from_millis(500);
        loop {
            if let Some(end) = self.status(socket) {
                return end;
            }
            if Instant::now() >= until {
                self.kill(socket);
                return ExitReason::Closed;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends a child at once, and blocks until it is gone, which is not long. A guest is only hung up on.
    pub(crate) fn kill(&mut self, socket: &Socket) {
        match self {
            Self::Child { child, lines, .. } => {
                let _ = child.kill();
                let _ = child.wait();
                lines.finish();
            }
            Self::Guest => socket.hang_up(),
        }
    }

    /// Waits for the last lines of a child that is gone.
    pub(crate) fn finish(&self) {
        if let Self::Child { lines, .. } = self {
            lines.finish();
        }
    }
}
