//! One closed list of what can go wrong. Protocols map it in total matches: a new kind does not
//! compile until every protocol has answered for it.

use std::{borrow::Cow, sync::Arc, time::Duration};

/// Whose fault it is, and so what a caller should do about it.
///
/// Every protocol maps each kind (`penstock_wire::rest::error`, `penstock_wire::grpc::error`), and
/// Python has one exception per kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong: fix it, do not retry it.
    InvalidInput,
    /// No such model, version or route.
    NotFound,
    /// There is one of that name already.
    AlreadyExists,
    /// The route exists, not for this method.
    MethodNotAllowed,
    /// The request is larger than a limit.
    TooLarge,
    /// A content encoding that this server does not read.
    UnsupportedEncoding,
    /// A feature that this server, model or build does not have.
    Unsupported,
    /// The caller may not do this.
    Forbidden,
    /// The queue is full: retry later.
    Overloaded,
    /// Starting, draining or not ready: retry later.
    Unavailable,
    /// The deadline passed before the answer was there.
    Timeout,
    /// The caller left or took the request back.
    Cancelled,
    /// The model's code failed, or returned what its signature does not allow.
    Handler,
    /// A defect of this server.
    Internal,
}

impl Kind {
    /// Every kind, for tests that compare lists.
    pub const ALL: [Self; 14] = [
        Self::InvalidInput,
        Self::NotFound,
        Self::AlreadyExists,
        Self::MethodNotAllowed,
        Self::TooLarge,
        Self::UnsupportedEncoding,
        Self::Unsupported,
        Self::Forbidden,
        Self::Overloaded,
        Self::Unavailable,
        Self::Timeout,
        Self::Cancelled,
        Self::Handler,
        Self::Internal,
    ];

    /// The stable lower-case name: metrics label, log field, and the `kind` of the Python exception.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::TooLarge => "too_large",
            Self::UnsupportedEncoding => "unsupported_encoding",
            Self::Unsupported => "unsupported",
            Self::Forbidden => "forbidden",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Handler => "handler",
            Self::Internal => "internal",
        }
    }

    /// The kind of that [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// An error that can be answered to a caller. Cheap to clone: one failed batch answers every caller.
///
/// The message is public text. It never holds a path, an address or a traceback; those go to the log.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: Kind,
    message: Arc<str>,
    retry_after: Option<Duration>,
    too_large_batch: bool,
    slow_body: bool,
}

/// The most bytes of a message; gRPC sends it as a header.
pub(crate) const LONGEST_MESSAGE: usize = 1024;

/// A result whose error can be answered to a caller.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` with a public message.
    ///
    /// A message may repeat what a client sent, so it is cut at [`LONGEST_MESSAGE`] bytes.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        let end = message.floor_char_boundary(LONGEST_MESSAGE);
        Self { kind, message: message[..end].into(), retry_after: None, too_large_batch: false, slow_body: false }
    }

    /// The client's mistake.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::InvalidInput, message)
    }

    /// The model's mistake.
    pub fn handler(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Handler, message)
    }

    /// A caller's own lateness with its request, for which HTTP has a status beside that of its kind, `Timeout`.
    pub fn slow_body(message: impl Into<Cow<'static, str>>) -> Self {
        Self { slow_body: true, ..Self::new(Kind::Timeout, message) }
    }

    /// Whether the caller sent its request too slowly.
    pub fn is_slow_body(&self) -> bool {
        self.slow_body
    }

    /// When a retry is likely to succeed (`Retry-After`).
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Says that the batch had more rows than the memory holds: with fewer it may succeed.
    #[must_use]
    pub fn batch_too_large(mut self) -> Self {
        self.too_large_batch = true;
        self
    }

    /// Whether a batch of fewer rows may succeed.
    pub fn is_batch_too_large(&self) -> bool {
        self.too_large_batch
    }

    /// The same of one row of a request, counted from 0.
    #[must_use]
    pub fn in_row(&self, row: usize) -> Self {
        Self { retry_after: self.retry_after, ..Self::new(self.kind, format!("row {row}: {}", self.message)) }
    }

    /// Whose fault it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The public message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// When a retry is likely to succeed, where that is known.
    pub fn retry_hint(&self) -> Option<Duration> {
        self.retry_after
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Kind, LONGEST_MESSAGE};

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let error = Error::invalid("ü".repeat(LONGEST_MESSAGE));
        assert_eq!(error.message(), "ü".repeat(LONGEST_MESSAGE / 2));
    }

    #[test]
    fn names_are_distinct_and_reversible() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(Kind::from_name("teapot"), None);
    }
}
