//! Error kinds: one closed list. Protocols map it in exhaustive matches, so a new kind does not compile until every
//! protocol maps it.

use std::{borrow::Cow, sync::Arc, time::Duration};

/// Error kind: the side at fault, and what the client should do.
///
/// Every protocol maps each kind (`penstock_wire::rest::error`, `penstock_wire::grpc::error`), and Python has one
/// exception per kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong: fix it, do not retry.
    InvalidInput,
    /// The model, version or route does not exist.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// The route does not support the method.
    MethodNotAllowed,
    /// The request exceeds a limit.
    TooLarge,
    /// The server does not support the content encoding.
    UnsupportedEncoding,
    /// The server, model or build does not support the feature.
    Unsupported,
    /// The client is not known: it sent no key, or one that is not valid.
    Unauthenticated,
    /// The client lacks permission.
    Forbidden,
    /// The client exceeds its own limit: retry later, not elsewhere.
    Throttled,
    /// The queue is full: retry later.
    Overloaded,
    /// Starting, draining or not ready: retry later.
    Unavailable,
    /// The deadline passed before the response.
    Timeout,
    /// The client disconnected or cancelled the request.
    Cancelled,
    /// The model's code failed, or returned something that its signature does not allow.
    Handler,
    /// A bug of this server.
    Internal,
}

impl Kind {
    /// All kinds, for tests that compare lists.
    pub const ALL: [Self; 16] = [
        Self::InvalidInput,
        Self::NotFound,
        Self::AlreadyExists,
        Self::MethodNotAllowed,
        Self::TooLarge,
        Self::UnsupportedEncoding,
        Self::Unsupported,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::Throttled,
        Self::Overloaded,
        Self::Unavailable,
        Self::Timeout,
        Self::Cancelled,
        Self::Handler,
        Self::Internal,
    ];

    /// Stable lower-case name: metrics label, log field, and `kind` of the Python exception.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::TooLarge => "too_large",
            Self::UnsupportedEncoding => "unsupported_encoding",
            Self::Unsupported => "unsupported",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Throttled => "throttled",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Handler => "handler",
            Self::Internal => "internal",
        }
    }

    /// True if the service is at fault, and not the request: what a service level counts as an error.
    pub const fn is_fault_of_service(self) -> bool {
        match self {
            Self::Overloaded | Self::Unavailable | Self::Timeout | Self::Handler | Self::Internal => true,
            Self::InvalidInput
            | Self::NotFound
            | Self::AlreadyExists
            | Self::MethodNotAllowed
            | Self::TooLarge
            | Self::UnsupportedEncoding
            | Self::Unsupported
            | Self::Forbidden
            | Self::Unauthenticated
            | Self::Throttled
            | Self::Cancelled => false,
        }
    }

    /// Kind by its [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Error for a client. Cheap to clone: a failed batch sends it to all clients.
///
/// The message is public. Paths, addresses and tracebacks go to the log only.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: Kind,
    message: Arc<str>,
    retry_after: Option<Duration>,
    too_large_batch: bool,
    slow_body: bool,
    /// Thin, because errors are moved with every result.
    traceback: Option<Arc<String>>,
}

/// Maximum bytes of a message; gRPC sends it as a header.
pub(crate) const MAX_MESSAGE: usize = 1024;

/// Maximum bytes of a message with a traceback. Clients of gRPC accept headers of 8 KiB.
const MAX_TRACEBACK: usize = 4096;

/// Maximum bytes of a traceback for operators.
const MAX_KEPT_TRACEBACK: usize = 8192;

/// Result with an error for a client.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error with a public message.
    ///
    /// A message may repeat client input, so it is truncated to [`MAX_MESSAGE`] bytes.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        let end = message.floor_char_boundary(MAX_MESSAGE);
        Self {
            kind,
            message: message[..end].into(),
            retry_after: None,
            too_large_batch: false,
            slow_body: false,
            traceback: None,
        }
    }

    /// Creates an `InvalidInput` error.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::InvalidInput, message)
    }

    /// Creates a `Handler` error.
    pub fn handler(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Handler, message)
    }

    /// Creates a `Handler` error whose message has a traceback, for a server in development. It is truncated to
    /// [`MAX_TRACEBACK`] bytes.
    pub fn traced(message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        let end = message.floor_char_boundary(MAX_TRACEBACK);
        Self { message: message[..end].into(), ..Self::handler("") }
    }

    /// Creates a `Timeout` error for a client that sent its body too slowly. HTTP has a separate status for it.
    pub fn slow_body(message: impl Into<Cow<'static, str>>) -> Self {
        Self { slow_body: true, ..Self::new(Kind::Timeout, message) }
    }

    /// Returns true for an error of [`Error::slow_body`].
    pub fn is_slow_body(&self) -> bool {
        self.slow_body
    }

    /// Adds the traceback of the exception behind the error, for operators. It is never sent to the error's client.
    /// A long one loses its beginning: the last frames say most.
    #[must_use]
    pub fn with_traceback(mut self, traceback: &str) -> Self {
        let start = traceback.ceil_char_boundary(traceback.len().saturating_sub(MAX_KEPT_TRACEBACK));
        self.traceback = Some(Arc::new(traceback[start..].to_owned()));
        self
    }

    /// Traceback of the exception behind the error, if it is known.
    pub fn traceback(&self) -> Option<&Arc<String>> {
        self.traceback.as_ref()
    }

    /// Sets the retry hint (`Retry-After`).
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Marks the batch as too large for the memory: a smaller one may succeed.
    #[must_use]
    pub fn batch_too_large(mut self) -> Self {
        self.too_large_batch = true;
        self
    }

    /// Returns true if a smaller batch may succeed.
    pub fn is_batch_too_large(&self) -> bool {
        self.too_large_batch
    }

    /// The error for one row of a request, counted from 0.
    #[must_use]
    pub fn in_row(&self, row: usize) -> Self {
        let traceback = self.traceback.clone();
        Self {
            retry_after: self.retry_after,
            traceback,
            ..Self::new(self.kind, format!("row {row}: {}", self.message))
        }
    }

    /// Kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Public message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Retry hint, if any.
    pub fn retry_hint(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Retry hint in whole seconds, for a header: rounded up, so that a client does not come too early, and at least 1.
    pub fn retry_seconds(&self) -> Option<u64> {
        let after = self.retry_hint()?;
        Some((after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Kind, MAX_KEPT_TRACEBACK, MAX_MESSAGE};

    #[test]
    fn long_messages_are_truncated_between_characters() {
        let error = Error::invalid("ü".repeat(MAX_MESSAGE));
        assert_eq!(error.message(), "ü".repeat(MAX_MESSAGE / 2));
    }

    #[test]
    fn long_tracebacks_keep_their_end() {
        let error = Error::handler("").with_traceback(&("ü".repeat(MAX_KEPT_TRACEBACK) + "!"));
        let kept = error.traceback().unwrap();
        assert!(kept.ends_with("üü!") && kept.len() < MAX_KEPT_TRACEBACK, "{}", kept.len());
        assert_eq!(error.in_row(3).traceback(), error.traceback());
        assert_eq!(error.message(), "");
    }

    #[test]
    fn kind_names_round_trip() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(Kind::from_name("teapot"), None);
    }
}
