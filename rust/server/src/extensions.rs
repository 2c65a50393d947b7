//! The protocol's extensions, by the names that Triton's clients look for.

use crate::front::Context;

/// What every server has.
const SERVED: &[&str] = &[
    "binary_tensor_data",
    "parameters",
    "sequence",
    "schedule_policy",
    "model_configuration",
    "model_repository",
    "classification",
    "statistics",
    "logging",
    "trace",
];

/// What `GET /v2` and `ServerMetadata` list: only what is served, to whoever asks.
pub(crate) fn served(context: &Context) -> Vec<&'static str> {
    let shared_memory = context.regions().is_ok().then_some("system_shared_memory");
    SERVED.iter().copied().chain(shared_memory).collect()
}
