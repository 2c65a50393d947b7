//! Requests and responses, as plain data of no protocol.

pub mod classify;
mod client_identity;
pub mod footprint;
mod headers;
mod infer_request;
mod model_patterns;
mod parameter;
mod raw_request;
mod request_context;
mod response;
mod row_failures;
mod schedule;
mod size;
mod spliced_body;
mod token_usage;
mod trace;

pub use self::{
    client_identity::{ClientCertificate, ClientIdentity},
    headers::Headers,
    infer_request::{DecodedInput, InferRequest, Protocol, RequestMetadata},
    model_patterns::ModelPatterns,
    parameter::{Parameter, Parameters},
    raw_request::{HttpRequest, RawRequest, RequestOutput, ResponseHead},
    request_context::{RequestContext, enable_request_contexts, request_contexts_enabled},
    response::{BodyChunks, InferResponse, InterpreterTimes, RequestedOutput, ResponsePlan, Timings},
    row_failures::RowFailures,
    schedule::{Client, Schedule, SequenceId, Step},
    spliced_body::{BodySource, SplicedBody},
    token_usage::{GenAiOperation, MAX_TOKENS, TokenUsage},
    trace::{ModelUsage, SpanIds, SpanRecorder, TraceText, Traced, TracedBatch},
};
pub(crate) use self::{schedule::LONGEST_ID, size::Lengths, trace::traced};
