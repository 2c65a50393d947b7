//! Penstock's model of inference. No Python, no sockets, no wire formats.
//!
//! A request goes down this list, and its answer comes back the same way:
//!
//! 1. a protocol decodes it into an [`InferRequest`], checked against the [`ModelSpec`];
//! 2. [`Model::infer`] puts it in the model's [`queue::Queue`], or refuses it;
//! 3. a free instance pulls a [`Job`]: [`batch::policy`] says when, and of how many rows;
//! 4. [`Job::gather`] joins the rows, the instance computes, [`Job::finish`] parts the outputs;
//!    or [`Job::stream`] hands out pieces as they are made;
//! 5. each [`Reply`] goes home over the [`CompletionQueue`] of the caller's I/O thread.
#![forbid(unsafe_code)]

mod admission;
pub mod batch;
pub mod bytes_tensor;
pub mod cache;
mod changes;
pub mod classify;
mod compatible;
mod completions;
pub mod copies;
mod datatype;
mod error;
mod fair;
pub mod footprint;
mod handover;
mod index;
mod job;
mod lane;
pub mod metrics;
mod model;
mod priority;
pub mod queue;
mod ragged;
mod raw_request;
mod registry;
mod reply;
mod request;
mod request_context;
mod resources;
mod response_future;
mod route;
mod row_cost;
mod rows;
mod sequence;
mod spec;
pub mod statistics;
mod stream;
mod streaming;
mod tensor;
#[cfg(feature = "testing")]
pub mod testing;
mod trace;
mod work;

pub use admission::{Bounds, Load};
pub use batch::gather::Outputs;
pub use changes::Changes;
pub use compatible::Window;
pub use completions::CompletionQueue;
pub use datatype::Datatype;
pub use error::{Error, Kind, Result};
pub use fair::{Client, Fairness};
pub use index::{IndexEntry, Note, State};
pub use job::{BatchOutput, Job, Part};
pub use model::{Model, Readiness};
pub use priority::{Level, Overdue, Queueing};
pub use ragged::{Ragged, RowLengths};
pub use raw_request::{Fallback, HttpRequest, RawRequest, RequestOutput, ResponseHead};
pub use registry::{ErrorTexts, Registry, Routed};
pub use reply::{CancelProbe, RemoteClient, Reply, Ticket, replies, reply};
pub use request::{
    BodyChunks, DecodedInput, Headers, InferRequest, InferResponse, Inputs, Parameter, Parameters, Protocol,
    RequestMetadata, RequestedOutput, ResponsePlan, Timings,
};
pub use request_context::{RequestContext, enable_request_contexts, request_contexts_enabled};
pub use resources::{ResourceRequest, ResourceShare, Resources};
pub use response_future::ResponseFuture;
pub use route::{Found, Route, RouteTable};
pub use row_cost::{Dim, RowCost, Term};
pub use rows::RowFailures;
pub use sequence::{Schedule, SequenceId, Sequences, Step};
pub use spec::{Batching, Document, ModelSpec, Oversize, Padding, TensorSpec, VersionPolicy, names, shape_text};
pub use stream::{ResponseChunk, ResponseStream};
pub use streaming::{RowChunk, SLOW_READER_TIMEOUT, Streaming};
pub use tensor::{
    AlignedBuffer, Buffer, MAX_RANK, Memory, Shape, Tensor, aligned_with_capacity, aligned_zeroed, byte_size,
    element_count,
};
pub use trace::{Recorder, SpanIds, TraceText, Traced, TracedBatch};
