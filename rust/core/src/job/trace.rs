//! Traces of batches.

use super::Job;
use crate::{
    Error, InterpreterTimes, Part, SpanIds, TraceText, TracedBatch,
    metrics::{Change, MetricRejected, MetricUpdate},
    request::traced,
};
use std::time::Instant;

/// Span of a batch: a child of its first traced request's span.
#[derive(Clone, Debug)]
pub(crate) struct BatchTrace {
    /// `None` in a worker process: the server records the span.
    pub(crate) ids: Option<SpanIds>,
    pub(crate) text: TraceText,
}

impl BatchTrace {
    /// Creates the span; `None` if no request is traced.
    pub(crate) fn of(parts: &[Part]) -> Option<Box<Self>> {
        let traced = parts.iter().find_map(|part| traced(part.request.context.as_deref()))?;
        let ids = SpanIds { trace: traced.ids.trace, span: traced.recorder.new_span() };
        Some(Box::new(Self {
            ids: Some(ids),
            text: TraceText { parent: ids.traceparent(), state: traced.state.clone() },
        }))
    }
}

impl Job {
    /// Parent span for the computation, if the batch is traced.
    pub fn trace(&self) -> Option<&TraceText> {
        self.trace.as_ref().map(|trace| &trace.text)
    }

    /// Applies a metric update of the handler, from its process.
    ///
    /// # Errors
    /// As [`ModelMetrics::record`](crate::metrics::ModelMetrics::record).
    pub fn apply(&self, update: MetricUpdate) -> Result<(), MetricRejected> {
        if let Change::Tokens(usage) = &update.change
            && let Some(part) = self.parts.get(usage.place)
            && let Some(traced) = traced(part.request.context.as_deref())
        {
            traced.set_usage(self.spec(), usage.clone());
        }
        self.metrics().record(update)
    }

    /// Trace of the batch's span, if it is recorded here.
    pub(super) fn trace_id(&self) -> Option<&[u8; 16]> {
        Some(&self.trace.as_deref()?.ids.as_ref()?.trace)
    }

    /// Sets the parent span from another process.
    #[must_use = "it is the job"]
    pub fn with_trace(mut self, trace: Option<TraceText>) -> Self {
        self.trace = trace.map(|text| Box::new(BatchTrace { ids: None, text }));
        self
    }

    /// Records the span of the batch.
    pub(super) fn record(&self, result: Result<InterpreterTimes, &Error>) {
        let Some(BatchTrace { ids: Some(ids), .. }) = self.trace.as_deref() else { return };
        let requests: Vec<_> = self
            .parts
            .iter()
            .filter_map(|part| Some((&**traced(part.request.context.as_deref())?, part.waited)))
            .collect();
        let Some((first, _)) = requests.first() else { return };
        let recorder = &first.recorder;
        recorder.batch(&TracedBatch {
            ids: *ids,
            spec: self.spec(),
            cut: self.cut_at,
            ended: Instant::now(),
            times: result.ok(),
            rows: self.rows,
            size: self.parts.len(),
            reason: self.reason.name(),
            error: result.err().map(|error| (error.kind(), error.message().to_owned())),
            requests,
        });
    }
}
