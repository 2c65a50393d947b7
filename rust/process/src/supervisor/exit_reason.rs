//! Exit reasons of processes, for clients, for the log and for the metric of restarts.

use penstock_core::{Error, Kind, ModelSpec};
use std::{fmt, os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

/// The reason that a process did not start or load.
#[derive(Clone, Debug)]
pub struct LoadFailure {
    /// One line.
    pub summary: String,
    /// The traceback of the exception; empty if there was none.
    pub traceback: String,
}

impl LoadFailure {
    pub(crate) fn new(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), traceback: String::new() }
    }
}

/// The reason that a process ended, or has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitReason {
    Killed {
        signal: i32,
        /// The kernel killed processes for lack of memory meanwhile.
        out_of_memory: bool,
    },
    Exited {
        code: i32,
    },
    /// It closed its end of the socket and is still running.
    Closed,
    Hung {
        after: Duration,
    },
    Abandoned {
        after: Duration,
    },
    /// The server stops and waits no longer.
    Stopped,
    /// It broke the protocol.
    ProtocolError,
    /// It attached itself, and disconnected or died: the server cannot see which.
    Detached,
    /// It attached itself, and broke the protocol.
    AttachedProtocolError,
    /// The batch cannot be sent: no memory or descriptors are left.
    NoMemory,
    MaxRss,
    MaxAge,
    MaxBatches,
}

impl ExitReason {
    /// The reason of an exit status.
    pub(crate) fn of(status: ExitStatus, out_of_memory: bool) -> Self {
        match status.signal() {
            Some(signal) => Self::Killed { signal, out_of_memory: out_of_memory && signal == 9 },
            None => Self::Exited { code: status.code().unwrap_or(0) },
        }
    }

    /// The reason in the words for a process that the server did not start.
    pub(crate) const fn for_attached(self) -> Self {
        if matches!(self, Self::ProtocolError | Self::Closed) { Self::AttachedProtocolError } else { self }
    }

    /// The label in the metric of restarts.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Killed { out_of_memory: true, .. } => "out_of_memory",
            Self::Killed { .. } => "killed",
            Self::Exited { .. } => "exited",
            Self::Hung { .. } => "hung",
            Self::Abandoned { .. } => "abandoned",
            Self::Stopped => "stopped",
            Self::Detached => "left",
            Self::Closed | Self::ProtocolError | Self::AttachedProtocolError | Self::NoMemory => "broken",
            Self::MaxRss => "max_rss",
            Self::MaxAge => "max_age",
            Self::MaxBatches => "max_batches",
        }
    }

    /// The error for the clients of its batch.
    pub(crate) fn error(self, spec: &ModelSpec) -> Error {
        let kind = if self == Self::NoMemory { Kind::Unavailable } else { Kind::Handler };
        Error::new(kind, format!("model '{}': {self}", spec.name))
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed { signal, out_of_memory } => {
                write!(f, "its process was killed by {}", SignalName(*signal))?;
                if *out_of_memory { f.write_str(", probably out of memory") } else { Ok(()) }
            }
            Self::Exited { code } => write!(f, "its process exited with code {code}"),
            Self::Closed | Self::ProtocolError => f.write_str("its process broke the protocol and was killed"),
            Self::Detached => f.write_str("the process that attached it is gone"),
            Self::AttachedProtocolError => f.write_str("the process that attached it broke the protocol"),
            Self::Hung { after } => write!(f, "its process did not answer within {after:?} and was killed"),
            Self::Abandoned { after } => {
                write!(f, "its process still computed {after:?} after all clients had disconnected, and was killed")
            }
            Self::Stopped => f.write_str("its process did not answer before the server stopped"),
            Self::NoMemory => f.write_str("there is no memory to send the batch to its process"),
            Self::MaxRss => f.write_str("its process has grown beyond max_rss"),
            Self::MaxAge => f.write_str("its process has reached max_age"),
            Self::MaxBatches => f.write_str("its process has computed max_batches"),
        }
    }
}

struct SignalName(i32);

impl fmt::Display for SignalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            1 => "SIGHUP",
            2 => "SIGINT",
            3 => "SIGQUIT",
            4 => "SIGILL",
            6 => "SIGABRT",
            7 => "SIGBUS",
            8 => "SIGFPE",
            9 => "SIGKILL",
            11 => "SIGSEGV",
            13 => "SIGPIPE",
            15 => "SIGTERM",
            24 => "SIGXCPU",
            31 => "SIGSYS",
            other => return write!(f, "signal {other}"),
        })
    }
}

/// The processes that the kernel has killed for lack of memory since the machine started.
pub(crate) fn out_of_memory_kills() -> u64 {
    let counters = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let line = counters.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_reasons_are_formatted() {
        let text = |status| ExitReason::of(ExitStatus::from_raw(status), true).to_string();
        assert_eq!(text(9), "its process was killed by SIGKILL, probably out of memory");
        assert_eq!(text(11), "its process was killed by SIGSEGV");
        assert_eq!(text(40), "its process was killed by signal 40");
        assert_eq!(text(3 << 8), "its process exited with code 3");
        let hung = ExitReason::Hung { after: Duration::from_secs(5) };
        assert_eq!(hung.to_string(), "its process did not answer within 5s and was killed");
    }
}
