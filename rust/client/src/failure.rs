//! Failed calls, and whether the server may have processed them.

use penstock_core::{Error, Kind};
use std::io;

/// Stage at which a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The server has not processed the call: it can be sent again.
    NotSent,
    /// The server responded with an error.
    Responded,
    /// The server may have processed the call.
    Unknown,
}

/// A call that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The error for the client's user.
    pub error: Error,
    /// HTTP status or gRPC code of the response; `None` without a response.
    pub status: Option<u16>,
    /// Stage at which the call failed.
    pub stage: Stage,
}

/// A call's result.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Failure that the server responded with.
    pub(crate) fn responded(error: Error, status: u16) -> Self {
        Self { error, status: Some(status), stage: Stage::Responded }
    }

    /// Failure before anything was sent.
    pub(crate) fn not_sent(error: Error) -> Self {
        Self { error, status: None, stage: Stage::NotSent }
    }

    /// Connection lost after the request was sent, or a part of it.
    pub(crate) fn lost(what: &str, error: &io::Error) -> Self {
        Self { error: from_io(what, error), status: None, stage: Stage::Unknown }
    }

    /// Deadline exceeded.
    pub(crate) fn timeout(stage: Stage) -> Self {
        Self { error: timed_out(), status: None, stage }
    }

    /// Failure of a stream whose next response did not arrive in time.
    pub fn stream_timeout() -> Self {
        Self::timeout(Stage::Unknown)
    }

    /// Replaces the stage.
    #[must_use]
    pub(crate) fn at(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }
}

impl From<Error> for Failure {
    /// A response that violates the protocol.
    fn from(error: Error) -> Self {
        Self { error, status: None, stage: Stage::Unknown }
    }
}

fn timed_out() -> Error {
    Error::new(Kind::Timeout, "the deadline passed before the server had answered")
}

/// Error of a socket; `what` is the operation that failed.
pub(crate) fn from_io(what: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::TimedOut => timed_out(),
        io::ErrorKind::UnexpectedEof => {
            Error::new(Kind::Unavailable, format!("{what}: the server closed the connection"))
        }
        _ => Error::new(Kind::Unavailable, format!("{what}: {error}")),
    }
}
