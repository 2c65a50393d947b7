//! Dispatch of requests to protocols and routes, behind the checks of their host and origin.

mod calls;
mod dispatcher;
mod host_syntax;
mod hosts;
mod keyed;

pub(crate) use dispatcher::{Dispatcher, ListenerScope};
