//! Penstock's model of inference. No Python, no sockets, no wire formats.
//!
//! A request goes down this list, and its response comes back the same way:
//!
//! 1. a protocol decodes it into an [`InferRequest`], checked against the [`ModelSpec`];
//! 2. [`Model::infer`] puts it in the model's [`queue::Queue`], or refuses it;
//! 3. a free instance pulls a [`Job`]: [`batch::policy`] decides when, and of how many rows;
//! 4. [`Job::gather`] joins the rows, the instance computes, [`Job::finish`] splits the outputs;
//!    or [`Job::stream`] sends chunks while they are computed;
//! 5. each [`Reply`] is completed on the client's I/O thread, through its [`CompletionQueue`].
//!
//! The modules below are layers, lowest first: each imports only those above it in this list.
#![forbid(unsafe_code)]

pub mod batch;
pub mod cache;
mod error;
mod job;
pub mod metrics;
mod model;
pub mod queue;
mod reply;
mod request;
mod route;
mod spec;
mod tensor;
#[cfg(feature = "testing")]
pub mod testing;

pub use batch::Part;
pub use error::{Error, Kind, Result};
pub use job::{BatchOutput, Job, Pulled, RowChunk, RowSet, SLOW_READER_TIMEOUT, Streaming, Work};
pub use metrics::statistics;
pub use model::{Changes, Dialect, IndexEntry, Model, Readiness, Registry, RouteMatch, VersionState, VersionStatus};
pub use queue::{Load, QueueLimits, ResourceShare, Resources};
pub use reply::{
    CancelProbe, CompletionQueue, InlineExecutor, RemoteClient, Reply, ResponseChunk, ResponseFuture, ResponseStream,
    Ticket, replies, reply,
};
pub use request::{
    BodyChunks, BodySource, Client, ClientCertificate, ClientIdentity, DecodedInput, GenAiOperation, Headers,
    HttpRequest, InferRequest, InferResponse, InterpreterTimes, MAX_TOKENS, ModelPatterns, ModelUsage, Parameter,
    Parameters, Protocol, RawRequest, RequestContext, RequestMetadata, RequestOutput, RequestedOutput, ResponseHead,
    ResponsePlan, RowFailures, Schedule, SequenceId, SpanIds, SpanRecorder, SplicedBody, Step, Timings, TokenUsage,
    TraceText, Traced, TracedBatch, classify, enable_request_contexts, footprint, request_contexts_enabled,
};
pub use route::{Route, RouteTable, TableMatch};
pub use spec::{
    Batching, Caching, Dim, Document, FairBy, Fairness, Fallback, Iterative, Level, ModelSpec, Overdue, Oversize,
    Padding, Queueing, Ragged, ResourceRequest, RowCost, Sequences, TensorSpec, Term, VersionPolicy, Window, names,
    shape_text,
};
pub use tensor::{
    AlignedBuffer, Buffer, Datatype, ElementKind, Inputs, MAX_RANK, Memory, Outputs, RowLengths, Shape, Tensor,
    aligned_with_capacity, aligned_zeroed, byte_size, bytes_tensor, copies, element_count,
};
