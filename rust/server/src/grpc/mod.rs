//! gRPC: `inference.GRPCInferenceService`, `grpc.health.v1.Health` and `grpc.reflection`.
//!
//! Calls are read and answered here, so that tensor bytes are copied once, and so that messages are inflated, counted
//! and decoded within the server's limits. Reflection goes through tonic.

mod dispatch;
mod frames;
mod handlers;
mod health;
mod infer;
mod reflection;
mod respond;
mod shared_memory;
mod status;
mod stream;
mod stream_read;
mod stream_reply;
mod stream_shared_memory;
mod unary;

pub(crate) use dispatch::{
    INFERENCE_CALL, INFERENCE_STREAM, call, check_access, is_grpc, is_inference, is_inference_stream, refusal,
};
pub(crate) use infer::infer;
pub(crate) use reflection::router;
