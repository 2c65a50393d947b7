//! Penstock's client: connections, calls, streams, retries. No Python.
//!
//! Everything is written once, as futures over a [`Client`]. Its [`Mode`] says who drives them:
//!
//! - [`Mode::Blocking`]: the calling thread itself, over blocking sockets and connections that no other
//!   thread uses meanwhile ([`blocking::drive`]). There is no runtime, no wake-up and no other thread.
//! - [`Mode::Shared`]: the one runtime of the process ([`background::spawn`]), for many calls at once; or an event
//!   loop on its own thread, as far as it can ([`Stepped`]).
#![forbid(unsafe_code)]

pub mod background;
pub mod blocking;
mod client;
mod compress;
mod connect;
mod failure;
mod grpc;
mod http1;
mod options;
mod raw;
mod request;
mod rest;
mod retry;
mod socket;
mod stepped;
mod stream;
mod target;
#[cfg(feature = "tls")]
mod tls;

pub use client::{Client, Mode};
pub use failure::{Failure, Stage};
pub use options::{Options, Retries, TlsOptions};
pub use penstock_wire::coding::Coding;
pub use penstock_wire::{ClientRequest, ClientResponse, NamedTensor};
pub use raw::{Raw, RawAnswer};
pub use request::{Ask, CallOptions, Override, What};
pub use stepped::{Progress, Stepped, Work};
pub use stream::Pieces;
pub use target::{Address, Target};
