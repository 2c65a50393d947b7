//! Penstock's client: connections, calls, streams, retries. No Python.
//!
//! All calls are futures over a [`Client`]. Its [`Mode`] selects their driver:
//!
//! - [`Mode::Blocking`]: the calling thread, over blocking sockets and connections that no other thread uses during the
//!   call ([`blocking::drive`]). There is no runtime, no wake-up and no other thread.
//! - [`Mode::Async`]: the one runtime of the process ([`runtime::spawn`]), for many calls at once; or an event loop on
//!   its own thread, as far as possible ([`InlineCall`]).
//!
//! HTTP/1.1 is not hyper's. With hyper's client the p50 of small calls is 6 % higher, a 4 MiB call takes 7 % longer,
//! and eight tasks complete 5 % fewer calls. The sockets would remain: they handle signals, deadlines and event loops.
#![forbid(unsafe_code)]

mod admin_request;
pub mod blocking;
mod client;
mod compression;
mod connector;
mod failure;
mod grpc;
mod http1;
mod inline_call;
pub mod load;
mod options;
mod raw_request;
mod response_stream;
mod rest;
mod retry;
pub mod runtime;
mod socket;
mod target;
#[cfg(feature = "tls")]
mod tls;

pub use admin_request::{AdminOperation, AdminRequest, LoadOverride};
pub use client::Client;
pub use failure::{Failure, Stage};
pub use inline_call::{InlineCall, Progress, Work};
pub use options::{CallOptions, Mode, Options, Retries, TlsOptions};
pub use penstock_wire::coding::Coding;
pub use penstock_wire::{ClientRequest, ClientResponse, NamedTensor};
pub use raw_request::{RawRequest, RawResponse};
pub use response_stream::ResponseStream;
pub use target::{Address, Target};
