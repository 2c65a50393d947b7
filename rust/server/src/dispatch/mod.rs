//! Dispatch of requests to protocols and routes, behind the checks of their host and origin.

mod dispatcher;
mod host_syntax;
mod hosts;

pub(crate) use dispatcher::{Dispatcher, ListenerScope};
