//! Tracing: which requests are traced, what is recorded of them, and how spans reach a collector.

mod exporter;
mod record;
mod request;
mod traceparent;
mod tracer;

pub(crate) use request::RequestTrace;
pub(crate) use tracer::Tracer;
