//! Tracing: which requests are traced, what is recorded of them, and how spans reach a collector.

mod context;
mod export;
mod record;
mod request;
mod settings;
mod tracer;

pub(crate) use request::RequestTrace;
pub use settings::Tracing;
pub(crate) use tracer::Tracer;
