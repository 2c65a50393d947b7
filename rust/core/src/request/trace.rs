//! Trace data of requests and batches. How spans are exported is up to the [`SpanRecorder`].

use super::{InterpreterTimes, RequestContext};
use crate::{Kind, ModelSpec};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// Ids of a span, as in W3C Trace Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanIds {
    /// Trace id.
    pub trace: [u8; 16],
    /// Span id.
    pub span: [u8; 8],
}

/// Parent span, in the form of the W3C headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceText {
    /// `traceparent`.
    pub parent: String,
    /// `tracestate`; empty if there is none.
    pub state: String,
}

/// A traced request.
#[derive(Debug)]
pub struct Traced {
    /// Span of the whole request.
    pub ids: SpanIds,
    /// `tracestate`.
    pub state: String,
    /// Receiver of spans.
    pub recorder: Arc<dyn SpanRecorder>,
}

/// Receiver of spans.
pub trait SpanRecorder: fmt::Debug + Send + Sync {
    /// Creates a span id.
    fn new_span(&self) -> [u8; 8];
    /// Records a batch that has ended and has traced requests.
    fn batch(&self, batch: &TracedBatch<'_>);
}

/// A batch that has ended, with at least one traced request.
#[derive(Debug)]
pub struct TracedBatch<'a> {
    /// Span of the batch, a child of the first traced request's span.
    pub ids: SpanIds,
    /// Model.
    pub spec: &'a ModelSpec,
    /// Traced requests, and the wait of each.
    pub requests: Vec<(&'a Traced, Duration)>,
    /// Time of the cut.
    pub cut: Instant,
    /// Time of the responses.
    pub ended: Instant,
    /// Durations; `None` if the batch failed.
    pub times: Option<InterpreterTimes>,
    /// Rows.
    pub rows: usize,
    /// Number of requests, traced or not.
    pub size: usize,
    /// Reason for the cut.
    pub reason: &'static str,
    /// Error, if the batch failed.
    pub error: Option<(Kind, String)>,
}

pub(crate) fn traced(origin: Option<&RequestContext>) -> Option<&Arc<Traced>> {
    origin?.trace.as_ref()
}

impl SpanIds {
    /// `traceparent` header of a sampled span.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-01", u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span))
    }
}

#[cfg(test)]
mod tests {
    use super::SpanIds;

    #[test]
    fn traceparent_ids_are_zero_padded() {
        let mut trace = [0; 16];
        trace[15] = 10;
        let ids = SpanIds { trace, span: [1; 8] };
        assert_eq!(ids.traceparent(), "00-0000000000000000000000000000000a-0101010101010101-01");
    }
}
