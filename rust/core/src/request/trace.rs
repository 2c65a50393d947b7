//! Trace data of requests and batches. How spans are exported is up to the [`SpanRecorder`].

use super::{InterpreterTimes, RequestContext, TokenUsage};
use crate::{Kind, ModelSpec};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
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
    usage: Mutex<Option<Box<ModelUsage>>>,
}

/// Tokens of a request, and the model that computed them.
#[derive(Debug)]
pub struct ModelUsage {
    /// The model.
    pub model: Arc<ModelSpec>,
    /// Its tokens.
    pub usage: TokenUsage,
}

impl Traced {
    /// Creates the trace of a request.
    pub fn new(ids: SpanIds, state: String, recorder: Arc<dyn SpanRecorder>) -> Self {
        Self { ids, state, recorder, usage: Mutex::default() }
    }

    /// Sets the tokens of the request so far.
    pub fn set_usage(&self, model: &Arc<ModelSpec>, usage: TokenUsage) {
        let usage = Box::new(ModelUsage { model: Arc::clone(model), usage });
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = Some(usage);
    }

    /// Takes the tokens of the request.
    pub fn take_usage(&self) -> Option<Box<ModelUsage>> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
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
