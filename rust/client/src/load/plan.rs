//! A load, and its limits.

use crate::{Options, RawRequest, Target};
use penstock_core::{Error, Result};
use penstock_wire::ClientRequest;
use std::time::Duration;

/// Maximum of threads of one run.
const MOST_THREADS: usize = 256;
/// Maximum of requests in flight of one run.
const MOST_IN_FLIGHT: usize = 1 << 20;

/// A load, its requests and its limits.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The server.
    pub target: Target,
    /// Options of the connections; retries and hedging do not apply.
    pub options: Options,
    /// Requests, sent in rotation by each thread.
    pub requests: Vec<LoadRequest>,
    /// Closed or open loop.
    pub load: Load,
    /// Number of threads.
    pub threads: usize,
    /// gRPC only: HTTP/2 connections of each thread, which its calls share. HTTP/1.1 has one for each request in flight.
    pub connections: usize,
    /// Time after which a request counts as an error. It is not sent to the server.
    pub timeout: Duration,
    /// Decode the responses, which else are checked for status and length only.
    pub validate: bool,
    /// Duration of the load before the measurement.
    pub warmup: Duration,
    /// Duration of the measurement; `None` for no such limit.
    pub duration: Option<Duration>,
    /// Requests of the measurement; `None` for no such limit.
    pub limit: Option<u64>,
}

/// A request to send.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a run has a few of them")]
pub enum LoadRequest {
    /// An inference.
    Infer(ClientRequest),
    /// HTTP only: a JSON body, with its method and path.
    Json(RawRequest),
}

/// Closed or open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// A fixed number of requests in flight.
    Closed {
        /// Requests in flight.
        concurrency: usize,
    },
    /// Requests at scheduled times.
    Open(OpenLoad),
}

/// Requests at scheduled times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenLoad {
    /// Requests per second.
    pub rate: f64,
    /// Distribution of the times.
    pub arrivals: Arrivals,
    /// Maximum of requests in flight. Requests beyond it wait, and are late.
    pub max_in_flight: usize,
    /// Seed of the distribution.
    pub seed: u64,
}

/// Distribution of an open loop's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal intervals.
    Constant,
    /// Independent of each other: exponentially distributed intervals.
    Poisson,
}

impl LoadPlan {
    /// Checks the numbers.
    ///
    /// # Errors
    /// `InvalidInput` that names the number and its range.
    pub(super) fn check(&self) -> Result<()> {
        let within = |name: &str, value: usize, most: usize| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            Err(Error::invalid(format!("{name} is {value}, expected 1 to {most}")))
        };
        within("threads", self.threads, MOST_THREADS)?;
        within("connections", self.connections, MOST_IN_FLIGHT)?;
        match self.load {
            Load::Closed { concurrency } => within("concurrency", concurrency, MOST_IN_FLIGHT)?,
            Load::Open(OpenLoad { rate, max_in_flight, .. }) => {
                within("max_in_flight", max_in_flight, MOST_IN_FLIGHT)?;
                if !(rate > 0.0 && rate <= 1e9) {
                    return Err(Error::invalid(format!("rate is {rate}, expected more than 0 and at most 1e9")));
                }
            }
        }
        if self.requests.is_empty() {
            return Err(Error::invalid("there are no requests to send"));
        }
        if self.duration.is_none() && self.limit.is_none() {
            return Err(Error::invalid("the measurement has no end: expected a duration or a number of requests"));
        }
        Ok(())
    }

    /// Threads that have something to do.
    pub(super) fn threads_used(&self) -> usize {
        match self.load {
            Load::Closed { concurrency } => self.threads.min(concurrency),
            Load::Open(OpenLoad { max_in_flight, .. }) => self.threads.min(max_in_flight),
        }
    }
}

/// The part of `total` for thread `index` of `threads`.
pub(super) fn share(total: u64, index: usize, threads: usize) -> u64 {
    let (index, threads) = (index as u64, threads as u64);
    total / threads + u64::from(index < total % threads)
}
