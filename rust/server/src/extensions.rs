//! The protocol's extensions, by the names that Triton's clients look for.

/// What `GET /v2` and `ServerMetadata` list: only what is served.
pub(crate) const SERVED: &[&str] = &[
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
