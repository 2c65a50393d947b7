//! Sampling of requests, and the ids of spans.

use super::{exporter::Exporter, record, request::RequestTrace, traceparent as context, traceparent::TraceParent};
use crate::{observe::Log, settings::Tracing};
use http::HeaderMap;
use penstock_core::{Protocol, SpanIds, SpanRecorder, Traced, TracedBatch, metrics::Metrics};
use penstock_wire::generated::trace::Span;
use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Tracer of one server.
#[derive(Debug)]
pub(crate) struct Tracer {
    ratio: f64,
    parent_based: bool,
    /// Spans of requests have the attributes of GenAI.
    gen_ai: bool,
    exporter: Exporter,
    ids: Ids,
}

impl Tracer {
    pub(crate) fn new(settings: &Tracing, metrics: &Metrics, log: &Arc<Log>) -> Arc<Self> {
        Arc::new(Self {
            ratio: settings.ratio,
            parent_based: settings.parent_based,
            gen_ai: settings.gen_ai,
            exporter: Exporter::new(settings, metrics.spans_dropped.clone(), Arc::clone(log)),
            ids: Ids::default(),
        })
    }

    /// Begins the trace of a request; `None` if it is not sampled.
    pub(crate) fn begin(
        self: &Arc<Self>,
        protocol: Protocol,
        headers: &HeaderMap,
        started: Instant,
    ) -> Option<Arc<RequestTrace>> {
        let parent = context::read(headers);
        let trace = parent.as_ref().map_or_else(|| self.ids.trace(), |parent| parent.ids.trace);
        if !self.is_sampled(parent.as_ref(), &trace) {
            return None;
        }
        let ids = SpanIds { trace, span: self.ids.span() };
        let (parent, state) = parent.map_or((None, String::new()), |parent| (Some(parent.ids.span), parent.state));
        let recorder: Arc<dyn SpanRecorder> = Arc::clone(self) as Arc<dyn SpanRecorder>;
        let traced = Arc::new(Traced::new(ids, state, recorder));
        Some(Arc::new(RequestTrace::new(Arc::clone(self), traced, parent, protocol, started)))
    }

    /// Applies the client's decision, else samples by trace id: all requests of a trace get the same result.
    fn is_sampled(&self, parent: Option<&TraceParent>, trace: &[u8; 16]) -> bool {
        match parent {
            Some(parent) if self.parent_based => parent.sampled,
            _ => {
                let [.., a, b, c, d, e, f, g, h] = *trace;
                let place = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1;
                (place as f64) < self.ratio * (1_u64 << 63) as f64
            }
        }
    }

    pub(super) fn has_gen_ai(&self) -> bool {
        self.gen_ai
    }

    pub(super) fn span(&self) -> [u8; 8] {
        self.ids.span()
    }

    pub(super) fn export(&self, span: Span) {
        self.exporter.take(span);
    }

    /// Flushes recorded spans, for at most `patience`.
    pub(crate) fn flush(&self, patience: Duration) {
        self.exporter.flush(patience);
    }
}

impl SpanRecorder for Tracer {
    fn new_span(&self) -> [u8; 8] {
        self.ids.span()
    }

    fn batch(&self, batch: &TracedBatch<'_>) {
        record::batch(self, batch);
    }
}

/// Source of random ids: a mixed counter from a random start.
#[derive(Debug)]
struct Ids(AtomicU64);

impl Default for Ids {
    fn default() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(std::process::id())))
    }
}

impl Ids {
    /// Returns the next number, never 0: 0 means no id.
    fn number(&self) -> u64 {
        let mut mixed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).max(1)
    }

    fn span(&self) -> [u8; 8] {
        self.number().to_be_bytes()
    }

    fn trace(&self) -> [u8; 16] {
        (u128::from(self.number()) << 64 | u128::from(self.number())).to_be_bytes()
    }
}
