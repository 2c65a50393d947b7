//! The access log: its form, and the fields of its lines.

/// Form of the access log, one line per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// No access log.
    Off,
    /// Readable text.
    Text,
    /// JSON.
    Json,
    /// Method, path, status and time of each request, for a developer's terminal.
    Short,
}

/// Field of a line of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessField {
    /// Time of the line.
    Time,
    /// Id of the request, or a generated one.
    Id,
    /// Protocol.
    Protocol,
    /// Model.
    Model,
    /// Version of the model.
    Version,
    /// `ok`, or the name of the error's kind.
    Outcome,
    /// HTTP status or gRPC code.
    Status,
    /// Duration of the request.
    Duration,
    /// Time in the queue.
    Queue,
    /// Time of the batch in the handler.
    Compute,
    /// Rows of the batch.
    BatchRows,
    /// Message of the error.
    Error,
    /// Address of the client's connection.
    Address,
    /// Name of the client's key, or of its certificate.
    Client,
    /// HTTP method.
    Method,
    /// Pattern of the route, or the full name of the gRPC call.
    Route,
    /// Bytes of the request's body.
    RequestBytes,
    /// Bytes of the response's body.
    ResponseBytes,
    /// Id of the trace.
    TraceId,
    /// The header `User-Agent`.
    UserAgent,
    /// Encryption of the connection.
    Tls,
}

impl AccessField {
    /// All fields, in the order of a JSON line.
    pub const ALL: [Self; 21] = [
        Self::Time,
        Self::Id,
        Self::Protocol,
        Self::Model,
        Self::Version,
        Self::Outcome,
        Self::Status,
        Self::Duration,
        Self::Queue,
        Self::Compute,
        Self::BatchRows,
        Self::Error,
        Self::Address,
        Self::Client,
        Self::Method,
        Self::Route,
        Self::RequestBytes,
        Self::ResponseBytes,
        Self::TraceId,
        Self::UserAgent,
        Self::Tls,
    ];

    /// Returns the name in settings and lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Id => "id",
            Self::Protocol => "protocol",
            Self::Model => "model",
            Self::Version => "version",
            Self::Outcome => "outcome",
            Self::Status => "status",
            Self::Duration => "duration_ms",
            Self::Queue => "queue_ms",
            Self::Compute => "compute_ms",
            Self::BatchRows => "batch_rows",
            Self::Error => "error",
            Self::Address => "address",
            Self::Client => "client",
            Self::Method => "method",
            Self::Route => "route",
            Self::RequestBytes => "request_bytes",
            Self::ResponseBytes => "response_bytes",
            Self::TraceId => "trace_id",
            Self::UserAgent => "user_agent",
            Self::Tls => "tls",
        }
    }

    /// Returns the field of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}
