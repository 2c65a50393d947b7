//! Penstock's model of inference. No Python, no sockets, no wire formats.
//!
//! A request goes down this list, and its answer comes back the same way:
//!
//! 1. a protocol decodes it into an [`InferRequest`], checked against the [`ModelSpec`];
//! 2. [`Model::infer`] puts it in the model's [`queue::Queue`], or refuses it;
//! 3. a free instance pulls a [`Job`]: [`batch::policy`] says when, and of how many rows;
//! 4. [`Job::gather`] joins the rows, the instance computes, [`Job::finish`] parts the outputs;
//!    or [`Job::stream`] hands out pieces as they are made;
//! 5. each [`Reply`] goes home over the [`Desk`] of the caller's I/O thread.
#![forbid(unsafe_code)]

mod admission;
mod answering;
pub mod batch;
pub mod bytes_tensor;
pub mod cache;
mod changes;
pub mod classify;
pub mod copies;
mod datatype;
mod desk;
mod error;
mod fair;
pub mod footprint;
mod index;
mod job;
mod joining;
mod lane;
pub mod metrics;
mod model;
mod open;
mod origin;
mod priority;
pub mod queue;
mod ragged;
mod registry;
mod reply;
mod request;
mod resources;
mod route;
mod row_cost;
mod rows;
mod sequence;
mod spec;
pub mod statistics;
mod stream;
mod streaming;
mod successor;
mod tensor;
#[cfg(feature = "testing")]
pub mod testing;
mod trace;
mod work;

pub use admission::{Bounds, Load};
pub use answering::Answering;
pub use batch::gather::Outputs;
pub use changes::Changes;
pub use datatype::Datatype;
pub use desk::Desk;
pub use error::{Error, Kind, Result};
pub use fair::{Client, Fairness};
pub use index::{IndexEntry, Note, State};
pub use job::{BatchOutput, Job, Part};
pub use joining::Window;
pub use model::{Model, Readiness};
pub use open::{Asked, Fallback, HttpRequest, OwnAnswer, Told};
pub use origin::{Origin, are_origins_wanted, want_origins};
pub use priority::{Level, Overdue, Queueing};
pub use ragged::{Ragged, RowLengths};
pub use registry::{Registry, Routed, Wording};
pub use reply::{CancelProbe, Presence, Reply, Ticket, replies, reply};
pub use request::{
    AnswerPlan, CallerInfo, Chunks, DecodedInput, Headers, InferRequest, InferResponse, Inputs, Parameter, Parameters,
    Protocol, RequestedOutput, Timings,
};
pub use resources::{Claim, Needs, Resources};
pub use route::{Found, Route, RouteTable};
pub use row_cost::{Dim, RowCost, Term};
pub use rows::RowFailures;
pub use sequence::{Schedule, SequenceId, Sequences, Step};
pub use spec::{Batching, Document, ModelSpec, Oversize, Padding, TensorSpec, VersionPolicy, names, shape_text};
pub use stream::{Piece, Pieces};
pub use streaming::{PATIENCE, RowPiece, Streaming};
pub use tensor::{
    AlignedBuffer, Buffer, MAX_RANK, Memory, Shape, Tensor, aligned_with_capacity, aligned_zeroed, byte_size,
    element_count,
};
pub use trace::{Recorder, SpanIds, TraceText, Traced, TracedBatch};
