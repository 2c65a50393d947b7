//! The messages of `proto/`, as `penstock-codegen` writes them. Nothing here is edited by hand.

// Generated code keeps its generator's style.
#![allow(missing_docs, clippy::all)]

/// Messages of package `inference`.
pub mod inference {
    include!("inference.rs");
}

/// Messages of package `grpc.health.v1`.
pub mod health {
    include!("grpc.health.v1.rs");
}

/// Messages of package `opentelemetry.proto`.
pub mod trace {
    include!("opentelemetry.proto.rs");
}

/// Both packages that are served as an encoded `FileDescriptorSet`, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");
