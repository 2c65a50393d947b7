//! Options of a model that have a few fields each: sequences, iterative batching, resources, caching, fallback.

use std::{sync::Arc, time::Duration};

/// Options of a model that keeps state between the requests of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// Time without a request after which a sequence ends.
    pub idle_timeout: Duration,
    /// Maximum active sequences, on all instances together.
    pub max_active: usize,
}

/// Options of a model that computes its rows step by step. `Batching::max_size` bounds the rows of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iterative {
    /// Maximum steps of a row.
    pub max_steps: u64,
}

/// Resources of the server that a model needs for each batch.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRequest {
    /// Names of resources, and the amount of each.
    pub amounts: Vec<(Arc<str>, u64)>,
    /// Share of batch starts, relative to other models that wait for the same resources.
    pub weight: f64,
}

/// Options of a model's response cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caching {
    /// Maximum bytes of all cached responses together.
    pub max_bytes: usize,
    /// Lifetime of an entry; `None` for as long as there is room.
    pub ttl: Option<Duration>,
    /// Headers, in lower case, that are part of the key. Headers that authenticate a client always are.
    pub vary: Vec<String>,
    /// Name of the code and weights. Servers with equal revisions may share responses; `None` for no sharing.
    pub revision: Option<String>,
    /// Includes the client's id, priority and headers in the key, for handlers that read them.
    pub per_client: bool,
}

/// Model that answers HTTP requests on behalf of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// Name of the fallback model.
    pub model: Arc<str>,
    /// Time limit for the primary model, from the request's arrival.
    pub timeout: Option<Duration>,
    /// Requests whose bodies contain any of these bytes go to the fallback model directly.
    pub match_body: Arc<[Box<[u8]>]>,
}
