//! What a request carries that is traced, and what a batch tells of it. How spans are written is not known here.

use super::{InterpreterTimes, RequestContext};
use crate::{Kind, ModelSpec};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// The ids of a span, as W3C's trace context has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanIds {
    /// Of all spans that belong together.
    pub trace: [u8; 16],
    /// Its own.
    pub span: [u8; 8],
}

/// A span that others may be parts of, in the form of W3C's headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceText {
    /// `traceparent`.
    pub parent: String,
    /// `tracestate`; empty if there is none.
    pub state: String,
}

/// A request that is traced.
#[derive(Debug)]
pub struct Traced {
    /// The span of the whole request.
    pub ids: SpanIds,
    /// Its `tracestate`.
    pub state: String,
    /// Who is told.
    pub recorder: Arc<dyn SpanRecorder>,
}

/// Who is told of what was traced.
pub trait SpanRecorder: fmt::Debug + Send + Sync {
    /// A new span's id.
    fn new_span(&self) -> [u8; 8];
    /// A batch of traced requests, and maybe others, has ended.
    fn batch(&self, batch: &TracedBatch<'_>);
}

/// A batch that has ended, some of whose requests are traced.
#[derive(Debug)]
pub struct TracedBatch<'a> {
    /// Its own span, which is a part of the first traced request's.
    pub ids: SpanIds,
    /// The model.
    pub spec: &'a ModelSpec,
    /// Its traced requests, and how long each had waited.
    pub requests: Vec<(&'a Traced, Duration)>,
    /// When it was cut.
    pub cut: Instant,
    /// When its answers were there.
    pub ended: Instant,
    /// Where its time went; `None` if it failed.
    pub times: Option<InterpreterTimes>,
    /// Its rows.
    pub rows: usize,
    /// Its requests, traced or not.
    pub size: usize,
    /// Why it was cut.
    pub reason: &'static str,
    /// Why it failed.
    pub error: Option<(Kind, String)>,
}

pub(crate) fn traced(origin: Option<&RequestContext>) -> Option<&Arc<Traced>> {
    origin?.trace.as_ref()
}

impl SpanIds {
    /// As a header, of a span that is recorded.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-01", u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span))
    }
}

#[cfg(test)]
mod tests {
    use super::SpanIds;

    #[test]
    fn ids_are_written_in_full() {
        let mut trace = [0; 16];
        trace[15] = 10;
        let ids = SpanIds { trace, span: [1; 8] };
        assert_eq!(ids.traceparent(), "00-0000000000000000000000000000000a-0101010101010101-01");
    }
}
