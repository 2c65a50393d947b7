//! Options of a model that have a few fields each: sequences, resources, caching, fallback.

use std::{sync::Arc, time::Duration};

/// A model that keeps state between the requests of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequences {
    /// A sequence without a request for that long is given up.
    pub idle_timeout: Duration,
    /// The most sequences that are active at once, on all instances together.
    pub max_active: usize,
}

/// What a model needs for each batch.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRequest {
    /// Resources, and how much of each.
    pub amounts: Vec<(Arc<str>, u64)>,
    /// How often it begins, against other models that wait for the same.
    pub weight: f64,
}

/// How a model's answers are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caching {
    /// The most bytes of all answers together.
    pub max_bytes: usize,
    /// For how long one answers; `None` for as long as there is room.
    pub ttl: Option<Duration>,
    /// Names, in lower case, of headers whose values set callers apart, beside those that prove who they are.
    pub vary: Vec<String>,
    /// The name of what computes. With it, servers may share their answers; `None` keeps them here.
    pub revision: Option<String>,
    /// Whether a handler that knows its callers may answer by their ids, priorities and headers.
    pub per_client: bool,
}

/// What answers an HTTP request to a path of a model's own where that model does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The name of the model that does.
    pub model: Arc<str>,
    /// How long the first has for it, from when the request arrived.
    pub timeout: Option<Duration>,
    /// What marks a request's body as the other model's: one that has any of these goes there at once.
    pub match_body: Arc<[Box<[u8]>]>,
}
