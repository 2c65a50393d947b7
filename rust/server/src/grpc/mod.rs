//! gRPC: `inference.GRPCInferenceService`, `grpc.health.v1.Health` and `grpc.reflection`.
//!
//! An uncompressed `ModelInfer` is read and answered here ([`infer`]), so that tensor bytes are
//! copied once; all other calls, and compressed ones, go through tonic ([`service`]).

mod health;
mod infer;
mod reflection;
mod service;
mod statistics;
mod status;
mod stream;
mod unary;

pub(crate) use infer::infer;
pub(crate) use unary::{is_grpc, is_plain_infer};

use crate::{
    body::Body,
    front::Context,
    generated::{
        health::health_server::HealthServer, inference::grpc_inference_service_server::GrpcInferenceServiceServer,
    },
    rest,
};
use axum::Router;
use http::Response;
use penstock_core::Error;
use penstock_wire::rest::error as wire;
use tonic::codec::CompressionEncoding;

/// The answer to a request that does not speak gRPC, on a port that speaks nothing else.
pub(crate) fn not_grpc() -> Response<Body> {
    let error = Error::invalid("this port serves gRPC only, expected the content type application/grpc");
    rest::error::json(415, wire::body(&error))
}

/// The router of one I/O thread. Unknown calls are answered UNIMPLEMENTED.
pub(crate) fn router(context: Context) -> Router {
    let limit = context.app.config.limits.body_bytes;
    let reflects = context.app.config.reflection;
    let inference = GrpcInferenceServiceServer::new(service::Service(context.clone()))
        .max_decoding_message_size(limit)
        .max_encoding_message_size(i32::MAX as usize)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate)
        .accept_compressed(CompressionEncoding::Zstd);
    let routes = tonic::service::Routes::new(inference).add_service(HealthServer::new(health::Service(context)));
    if reflects { reflection::add(routes) } else { routes }.into_axum_router()
}
