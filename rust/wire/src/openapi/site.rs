//! Input of a document.

use super::routes::Route;
use penstock_core::{Dialect, ModelSpec, Oversize};

/// A server to describe.
#[derive(Clone, Copy, Debug)]
pub struct ServerDescription<'a> {
    /// The server's name.
    pub name: &'a str,
    /// The server's version.
    pub version: &'a str,
    /// The routes of the server, but those that models declare.
    pub routes: &'a [Route],
    /// Every version of every model that is described.
    pub models: &'a [ServedModel<'a>],
    /// Limits of a request.
    pub bounds: RequestLimits,
    /// Dialect, which determines the statuses of errors.
    pub dialect: Dialect,
    /// NaN and infinities are written as `null`.
    pub strict_json: bool,
    /// Responses have timing headers.
    pub timing_headers: bool,
}

/// A version of a model.
#[derive(Clone, Copy, Debug)]
pub struct ServedModel<'a> {
    /// Its declaration.
    pub spec: &'a ModelSpec,
    /// Requests without a version go to it.
    pub is_default: bool,
}

/// Limits of a request, in bytes, counts and levels.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of all header names and values.
    pub header_bytes: usize,
    /// Headers.
    pub headers: usize,
    /// Bytes of path and query.
    pub uri_bytes: usize,
    /// Levels of nested JSON.
    pub json_depth: usize,
}

/// The most rows that a request may have; `None` without a batch axis.
pub(super) fn max_rows(spec: &ModelSpec) -> Option<usize> {
    spec.batching.as_ref().map(|batching| match batching.oversize {
        Oversize::Refuse => batching.max_size,
        Oversize::Split => batching.max_size.saturating_mul(spec.max_queue),
    })
}
