//! Builds the spans of requests and batches.

use super::{
    gen_ai,
    request::{Outcome, RequestTrace},
    tracer::Tracer,
};
use penstock_core::{Kind, SpanIds, TracedBatch};
use penstock_wire::generated::trace::{
    AnyValue, KeyValue, Span, Status,
    any_value::Value,
    span::{Link, SpanKind},
    status::StatusCode,
};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Converts monotonic times to Unix times.
struct Clock {
    now: Instant,
    unix: u64,
}

impl Clock {
    fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { now: Instant::now(), unix: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
    }

    fn unix(&self, at: Instant) -> u64 {
        let ago = self.now.saturating_duration_since(at).as_nanos();
        self.unix.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX))
    }
}

/// Builds a span.
fn span(ids: SpanIds, parent: Option<[u8; 8]>, name: &str, (from, to): (u64, u64)) -> Span {
    Span {
        trace_id: ids.trace.to_vec().into(),
        span_id: ids.span.to_vec().into(),
        parent_span_id: parent.map(|parent| parent.to_vec().into()).unwrap_or_default(),
        name: name.to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: from,
        // Two readings of a clock may be out of order.
        end_time_unix_nano: to.max(from),
        ..Span::default()
    }
}

pub(super) fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

pub(super) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: usize) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn fail(span: &mut Span, kind: Kind, message: &str) {
    span.status = Some(Status { code: StatusCode::Error.into(), message: message.to_owned() });
    span.attributes.push(text("error.type", kind.name()));
}

fn link(ids: SpanIds) -> Link {
    Link { trace_id: ids.trace.to_vec().into(), span_id: ids.span.to_vec().into() }
}

/// Exports the spans of a request: the whole, receiving, and encoding.
pub(super) fn request(request: &RequestTrace) {
    let RequestTrace { tracer, traced, parent, protocol, .. } = request;
    let (clock, ids) = (Clock::new(), traced.ids);
    let (from, to) = (clock.unix(request.started), clock.unix);
    let own = || SpanIds { span: tracer.span(), ..ids };
    let part = |name: &str, from, to| tracer.export(span(own(), Some(ids.span), name, (from, to)));
    let received = request.received.get().map_or(to, |&at| clock.unix(at));
    part("receive", from, received);
    if let Some(&computed) = request.computed.get() {
        part("encode", clock.unix(computed), to);
    }
    let outcome = request.outcome.get();
    let model = outcome.and_then(|outcome| outcome.model.as_ref());
    let name = model.map_or_else(|| "infer".to_owned(), |(name, _)| format!("infer {name}"));
    let mut whole = span(ids, *parent, &name, (from, to));
    whole.kind = SpanKind::Server.into();
    whole.trace_state.clone_from(&traced.state);
    whole.attributes.push(text("penstock.protocol", protocol.name()));
    if let Some((name, version)) = model {
        whole.attributes.extend([text("penstock.model", name), text("penstock.version", version)]);
    }
    if tracer.has_gen_ai()
        && let Some(usage) = traced.take_usage()
    {
        whole.attributes.extend(gen_ai::attributes(request, &usage));
    }
    match outcome {
        None => fail(&mut whole, Kind::Cancelled, "the client left before the response"),
        Some(Outcome { id, status, error, .. }) => {
            whole.attributes.push(attribute("penstock.status", Value::IntValue((*status).into())));
            if !id.is_empty() {
                whole.attributes.push(text("penstock.request_id", id));
            }
            if let Some((kind, message)) = error {
                fail(&mut whole, *kind, message);
            }
        }
    }
    tracer.export(whole);
}

/// Exports the spans of a batch: the batch, and the queue and compute spans of each traced request.
pub(super) fn batch(tracer: &Tracer, batch: &TracedBatch<'_>) {
    let clock = Clock::new();
    let (cut, ended) = (clock.unix(batch.cut), clock.unix(batch.ended));
    // Time after the handler is not compute time; before it, rows are joined and the GIL is awaited.
    let computed = batch.times.map(|times| {
        let to = batch.ended.checked_sub(times.output).unwrap_or(batch.ended).max(batch.cut);
        (clock.unix(to.checked_sub(times.handler).unwrap_or(to).max(batch.cut)), clock.unix(to))
    });
    for (index, (request, waited)) in batch.requests.iter().enumerate() {
        let own = || SpanIds { span: tracer.span(), ..request.ids };
        let came = clock.unix(batch.cut.checked_sub(*waited).unwrap_or(batch.cut));
        tracer.export(span(own(), Some(request.ids.span), "queue", (came, cut)));
        let mut compute = span(own(), Some(request.ids.span), "compute", computed.unwrap_or((cut, ended)));
        compute.links.push(link(batch.ids));
        finish(&mut compute, batch);
        tracer.export(compute);
        if index == 0 {
            let name = format!("batch {}", batch.spec.name);
            let mut whole = span(batch.ids, Some(request.ids.span), &name, (cut, ended));
            whole.links.extend(batch.requests.iter().map(|(request, _)| link(request.ids)));
            whole.attributes.push(number("penstock.batch.requests", batch.size));
            whole.attributes.push(text("penstock.batch.reason", batch.reason));
            finish(&mut whole, batch);
            tracer.export(whole);
        }
    }
}

fn finish(span: &mut Span, batch: &TracedBatch<'_>) {
    span.attributes.extend([
        text("penstock.model", &batch.spec.name),
        text("penstock.version", &batch.spec.version),
        number("penstock.batch.size", batch.rows),
    ]);
    if let Some((kind, message)) = &batch.error {
        fail(span, *kind, message);
    }
}
