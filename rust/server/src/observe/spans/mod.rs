//! Tracing: sampling of requests, their spans, and the export to a collector.

mod collector;
mod exporter;
mod gen_ai;
mod record;
mod request;
mod traceparent;
mod tracer;

pub(crate) use request::RequestTrace;
pub(crate) use traceparent::trace_id;
pub(crate) use tracer::Tracer;
