//! Handlers: the thread that calls one, its arguments, and the outputs that it returns.

pub(crate) mod arguments;
pub(crate) mod batch_output;
pub(crate) mod call;
pub(crate) mod context;
mod cpu_clock;
pub(crate) mod inline;
pub(crate) mod instance;
mod iterative;
pub(crate) mod load_result;
pub(crate) mod metrics;
pub(crate) mod outputs;
mod per_request;
mod raw_outputs;
pub(crate) mod request_info;
mod request_tokens;
mod response_parameters;
pub(crate) mod row;
mod row_errors;
pub(crate) mod sequences;
pub(crate) mod stream;
pub(crate) mod stream_sink;
pub(crate) mod thread_context;
