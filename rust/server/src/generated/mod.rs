//! The service stubs of `proto/`, as `penstock-codegen` writes them. Nothing here is edited by hand.
//! Their messages are `penstock_wire::generated`'s.

// Generated code keeps its generator's style.
#![allow(missing_docs, unreachable_pub, clippy::all)]

/// `inference.GRPCInferenceService`.
pub mod inference {
    include!("inference.rs");
}

/// `grpc.health.v1.Health`.
pub mod health {
    include!("grpc.health.v1.rs");
}
