//! Peer of a socket: a child process, or a process that attached itself.

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

/// The process at the other end of a socket.
#[derive(Debug)]
pub(crate) enum Peer {
    /// A child of the server, killed with it.
    Child {
        child: Child,
        stdio: StdioForwarder,
        /// Readable once it has ended; `None` where the kernel has no pidfds.
        pidfd: Option<OwnedFd>,
        kills_before: u64,
    },
    /// A process that attached itself: not a child, and not killed by the server. It lives while its socket is open.
    Attached,
}

impl Peer {
    /// A child that was just started. `kills_before` are the out-of-memory kills before that.
    pub(crate) fn child(mut child: Child, model: &str, kills_before: u64) -> io::Result<Self> {
        let stdio = StdioForwarder::spawn(model, &mut child)?;
        let pidfd = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pidfd = pidfd.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Self::Child { child, stdio, pidfd, kills_before })
    }

    pub(crate) fn is_attached(&self) -> bool {
        matches!(self, Self::Attached)
    }

    /// The process id of a child.
    pub(crate) fn id(&self) -> Option<u32> {
        match self {
            Self::Child { child, .. } => Some(child.id()),
            Self::Attached => None,
        }
    }

    pub(crate) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Child { pidfd, .. } => pidfd.as_ref().map(|pidfd| pidfd.as_fd()),
            Self::Attached => None,
        }
    }

    /// Its exit reason, if it has ended.
    pub(crate) fn status(&mut self, socket: &Socket) -> Option<ExitReason> {
        match self {
            Self::Child { child, kills_before, .. } => {
                let out_of_memory = out_of_memory_kills() > *kills_before;
                child.try_wait().ok().flatten().map(|status| ExitReason::of(status, out_of_memory))
            }
            Self::Attached => socket.is_closed().then_some(ExitReason::Detached),
        }
    }

    /// Returns whether it has ended, by the cheapest check.
    pub(crate) fn has_ended(&mut self, socket: &Socket) -> bool {
        match self {
            Self::Child { pidfd: Some(pidfd), .. } => Socket::is_ready(pidfd.as_fd()),
            Self::Child { .. } | Self::Attached => self.status(socket).is_some(),
        }
    }

    /// Returns the exit reason. Kills a child that closed its socket but is still running.
    pub(crate) fn reap(&mut self, socket: &Socket) -> ExitReason {
        if self.is_attached() {
            self.kill(socket);
            return ExitReason::Detached;
        }
        // Its socket may close shortly before its exit status is there.
        let until = Instant::now() + Duration::from_millis(500);
        loop {
            if let Some(reason) = self.status(socket) {
                return reason;
            }
            if Instant::now() >= until {
                self.kill(socket);
                return ExitReason::Closed;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills a child, and blocks until it is gone, which takes milliseconds. Of an attached process only the socket is
    /// closed.
    pub(crate) fn kill(&mut self, socket: &Socket) {
        match self {
            Self::Child { child, stdio, .. } => {
                let _ = child.kill();
                let _ = child.wait();
                stdio.finish();
            }
            Self::Attached => socket.shutdown(),
        }
    }

    /// Waits for the last output of a child that is gone.
    pub(crate) fn finish(&self) {
        if let Self::Child { stdio, .. } = self {
            stdio.finish();
        }
    }
}
