//! Penstock's server: sockets, limits, routes, drain. No Python.
//!
//! A request's way down: [`connection`] (a socket's bytes, timeouts), [`front`] (which protocol, which
//! route), `rest::infer` or `grpc::infer` (read, decode), [`compute`] (queue and wait), encode.
#![forbid(unsafe_code)]

mod access;
mod access_log;
mod activity;
mod answers;
mod app;
mod body;
mod cached;
mod compute;
mod config;
mod connection;
mod control;
mod extensions;
mod fair;
mod forward;
mod framing;
mod front;
mod grpc;
mod guard;
mod headers;
mod host_form;
mod hosts;
mod in_process;
mod inflate;
mod io_thread;
mod listen;
mod log;
mod log_events;
mod observed;
mod offload;
mod pieces;
mod read_body;
mod rest;
mod server;
mod shared_memory;
mod spans;
mod trace;
mod unread;
mod warm;

pub use access::{Access, Category};
pub use access_log::{LONGEST_NAME, plain};
pub use cached::SharedCache;
pub use config::{
    AccessLog, Address, CloudEvents, Compression, Config, HostedRoutes, Hosting, Limits, Listener, LogLevel,
    SharedMemory,
};
pub use control::{Action, BatchingDebug, Command, Control};
pub use forward::HeaderPattern;
pub use in_process::InProcess;
pub use io_thread::processors;
pub use listen::StartError;
pub use server::Server;
pub use spans::Tracing;
pub use warm::sample;
