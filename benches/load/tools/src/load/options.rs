//! The command line.

use crate::arrivals::Arrivals;
use clap::{Parser, ValueEnum};
use std::{path::PathBuf, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wire {
    Http,
    Grpc,
}

/// Sends one body again and again, and measures the responses.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// The protocol.
    #[arg(long)]
    pub(crate) wire: Wire,
    /// HOST:PORT of the server.
    #[arg(long)]
    pub(crate) address: String,
    /// The path of the request.
    #[arg(long)]
    pub(crate) path: String,
    /// The file with the request's body: over gRPC, the message.
    #[arg(long)]
    pub(crate) body: PathBuf,
    /// An HTTP header, "name: value". May be repeated.
    #[arg(long = "header")]
    pub(crate) headers: Vec<String>,
    /// Requests in flight; at a fixed rate, the maximum.
    #[arg(long, default_value_t = 1)]
    pub(crate) connections: usize,
    /// TCP connections that gRPC calls share; HTTP has one for each request under way.
    #[arg(long, default_value_t = 8)]
    pub(crate) channels: usize,
    /// Seconds before the measurement.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) warm_up: f64,
    /// Seconds of measurement.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Stop after that many requests; 0 for no such limit.
    #[arg(long, default_value_t = 0)]
    pub(crate) requests: u64,
    /// Requests a second to start; 0 for a closed loop.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) rate: f64,
    /// Distribution of an open loop's starts.
    #[arg(long, value_enum, default_value_t = Arrivals::Even)]
    pub(crate) arrivals: Arrivals,
    /// The share of clients that close their connection early; HTTP only.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) leave: f64,
    /// Seconds after which they close it.
    #[arg(long, default_value_t = 0.02)]
    pub(crate) leave_after: f64,
    /// Seconds after which the client gives up on a request.
    #[arg(long, default_value_t = 60.0)]
    pub(crate) timeout: f64,
    /// File for the first successful response.
    #[arg(long)]
    pub(crate) save: Option<PathBuf>,
}

impl Options {
    /// The time after which a client closes its connection early.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.leave_after)
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }
}
