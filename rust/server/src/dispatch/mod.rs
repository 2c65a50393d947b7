//! Dispatch of requests to protocols and routes, behind the checks of their host and origin.

mod calls;
mod dispatcher;
mod forwarded;
mod host_syntax;
mod hosts;
mod keyed;
mod logged;
mod logs;
mod pages;

pub(crate) use dispatcher::{Dispatcher, ListenerScope};
