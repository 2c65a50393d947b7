//! Why a call failed, and whether the server may have worked on it.

use penstock_core::{Error, Kind};
use std::io;

/// How far a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The server has not worked on it: it can be sent again, whatever it asks.
    NotSent,
    /// The server answered that it will not.
    Responded,
    /// The server may have worked on it.
    Unknown,
}

/// A call that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What to tell the caller.
    pub error: Error,
    /// The HTTP status or gRPC code of the answer; `None` if there was none.
    pub status: Option<u16>,
    /// How far it came.
    pub stage: Stage,
}

/// A call's result.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The server's own refusal.
    pub(crate) fn responded(error: Error, status: u16) -> Self {
        Self { error, status: Some(status), stage: Stage::Responded }
    }

    /// Before anything was sent.
    pub(crate) fn not_sent(error: Error) -> Self {
        Self { error, status: None, stage: Stage::NotSent }
    }

    /// A connection that broke after the request was sent, or a part of it.
    pub(crate) fn lost(what: &str, error: &io::Error) -> Self {
        Self { error: from_io(what, error), status: None, stage: Stage::Unknown }
    }

    /// The deadline passed.
    pub(crate) fn timeout(stage: Stage) -> Self {
        Self { error: timed_out(), status: None, stage }
    }

    /// The next piece of a stream did not come in time.
    pub fn late() -> Self {
        Self::timeout(Stage::Unknown)
    }

    /// The same, of an earlier stage.
    #[must_use]
    pub(crate) fn at(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }
}

impl From<Error> for Failure {
    /// What was answered, and is not what the protocol has.
    fn from(error: Error) -> Self {
        Self { error, status: None, stage: Stage::Unknown }
    }
}

fn timed_out() -> Error {
    Error::new(Kind::Timeout, "the deadline passed before the server had answered")
}

/// An error of a socket; `what` is what failed.
pub(crate) fn from_io(what: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::TimedOut => timed_out(),
        io::ErrorKind::UnexpectedEof => {
            Error::new(Kind::Unavailable, format!("{what}: the server closed the connection"))
        }
        _ => Error::new(Kind::Unavailable, format!("{what}: {error}")),
    }
}
