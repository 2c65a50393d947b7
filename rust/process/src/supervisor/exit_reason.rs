//! Why a process is no more, for callers, for the log and for the metric.

use penstock_core::{Error, Kind, ModelSpec};
use std::{fmt, os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

/// Why a process could not be started.
#[derive(Clone, Debug)]
pub struct LoadFailure {
    /// One line.
    pub summary: String,
    /// The traceback of what it raised; empty if it did not come so far.
    pub traceback: String,
}

impl LoadFailure {
    pub(crate) fn of(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), traceback: String::new() }
    }
}

/// How a process came to its end, or has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitReason {
    Killed {
        signal: i32,
        /// The kernel has killed for lack of memory meanwhile.
        out_of_memory: bool,
    },
    Exited {
        code: i32,
    },
    /// It closed its end of the socket and is still there.
    Closed,
    Hung {
        after: Duration,
    },
    Abandoned {
        after: Duration,
    },
    /// The server stops, and does not wait longer.
    Stopped,
    /// It did not keep to the protocol.
    Broken,
    /// It had attached itself, and has left or died: it is not ours to know.
    Left,
    /// It had attached itself, and did not keep to the protocol.
    Dismissed,
    /// The batch cannot be handed over, for lack of memory or descriptors.
    NoMemory,
    MaxRss,
    MaxAge,
    MaxBatches,
}

impl ExitReason {
    pub(crate) fn of(status: ExitStatus, out_of_memory: bool) -> Self {
        match status.signal() {
            Some(signal) => Self::Killed { signal, out_of_memory: out_of_memory && signal == 9 },
            None => Self::Exited { code: status.code().unwrap_or(0) },
        }
    }

    /// The same end, of a process that is not ours to kill.
    pub(crate) const fn of_a_guest(self) -> Self {
        if matches!(self, Self::Broken | Self::Closed) { Self::Dismissed } else { self }
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
            Self::Left => "left",
            Self::Closed | Self::Broken | Self::Dismissed | Self::NoMemory => "broken",
            Self::MaxRss => "max_rss",
            Self::MaxAge => "max_age",
            Self::MaxBatches => "max_batches",
        }
    }

    /// What the callers of its batch are told.
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
                if *out_of_memory { f.write_str(", for lack of memory as it seems") } else { Ok(()) }
            }
            Self::Exited { code } => write!(f, "its process exited with code {code}"),
            Self::Closed | Self::Broken => f.write_str("its process did not answer as it must and was killed"),
            Self::Left => f.write_str("the process that attached it is gone"),
            Self::Dismissed => f.write_str("the process that attached it did not answer as it must"),
            Self::Hung { after } => write!(f, "its process did not answer within {after:?} and was killed"),
            Self::Abandoned { after } => {
                write!(f, "its process still computed {after:?} after all callers had left, and was killed")
            }
            Self::Stopped => f.write_str("its process did not answer before the server stopped"),
            Self::NoMemory => f.write_str("there is no memory to hand the batch to its process"),
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

/// How many processes the kernel has killed for lack of memory since it started.
pub(crate) fn out_of_memory_kills() -> u64 {
    let counters = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let line = counters.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_named() {
        let end = |status| ExitReason::of(ExitStatus::from_raw(status), true).to_string();
        assert_eq!(end(9), "its process was killed by SIGKILL, for lack of memory as it seems");
        assert_eq!(end(11), "its process was killed by SIGSEGV");
        assert_eq!(end(40), "its process was killed by signal 40");
        assert_eq!(end(3 << 8), "its process exited with code 3");
        let hung = ExitReason::Hung { after: Duration::from_secs(5) };
        assert_eq!(hung.to_string(), "its process did not answer within 5s and was killed");
    }
}
