//! Settings of the span exporter.

use penstock_tls::Outgoing;

/// Destination of spans, and the sampling of requests.
#[derive(Clone, Debug, Default)]
pub struct Tracing {
    /// The collector's URL, for log messages.
    pub endpoint: String,
    /// `HOST:PORT` of the collector.
    pub authority: String,
    /// Path and query that receive spans.
    pub path: String,
    /// Sends over gRPC, in place of HTTP.
    pub grpc: bool,
    /// TLS of the connection; `None` for none.
    pub tls: Option<Outgoing>,
    /// Headers of each export request.
    pub headers: Vec<(String, String)>,
    /// The name of this program in its traces.
    pub service_name: String,
    /// Share of traced requests, from 0 to 1, where the client does not decide.
    pub ratio: f64,
    /// Follows the sampling decision of a client that sends one.
    pub parent_based: bool,
    /// Adds the attributes of OpenTelemetry's GenAI conventions, which are in development, to spans of requests.
    pub gen_ai: bool,
}
