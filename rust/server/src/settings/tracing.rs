//! What can be set of tracing.

/// Where spans go, and of which requests.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// The collector, for messages.
    pub endpoint: String,
    /// Its `HOST:PORT`.
    pub authority: String,
    /// Where it takes spans, with the query.
    pub path: String,
    /// What it is sent with them.
    pub headers: Vec<(String, String)>,
    /// The name of this program in its traces.
    pub service_name: String,
    /// The share of requests that are traced, from 0 to 1, of those about which the caller does not decide.
    pub ratio: f64,
    /// Whether a caller that traces its request, or says that it does not, decides.
    pub parent_based: bool,
}
