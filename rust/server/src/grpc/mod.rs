//! gRPC: `inference.GRPCInferenceService`, `grpc.health.v1.Health` and `grpc.reflection`.
//!
//! An uncompressed `ModelInfer` is read and answered here ([`infer`]), so that tensor bytes are
//! copied once; all other calls, and compressed ones, go through tonic ([`service`]).

mod health;
mod infer;
mod reflection;
mod repository;
mod service;
mod settings;
mod shared_memory;
mod statistics;
mod status;
mod stream;
mod stream_shared;
mod unary;

pub(crate) use infer::infer;
pub(crate) use unary::{is_grpc, is_plain_infer};

use crate::{
    app::App,
    body::Body,
    config::Compression,
    front::Context,
    generated::{
        health::health_server::HealthServer, inference::grpc_inference_service_server::GrpcInferenceServiceServer,
    },
    rest,
};
use axum::Router;
use http::{HeaderValue, Response, header::CONTENT_TYPE};
use penstock_core::Error;
use penstock_wire::rest::error as wire;
use tonic::codec::CompressionEncoding;

/// How the names of headers begin that gRPC has for itself.
pub(crate) const METADATA_OF_ITS_OWN: [&str; 2] = ["grpc-", "content-type"];

/// The answer to a request that does not speak gRPC, on a port that speaks nothing else.
pub(crate) fn not_grpc() -> Response<Body> {
    let error = Error::invalid("this port serves gRPC only, expected the content type application/grpc");
    rest::error::json(415, wire::body(&error))
}

/// The answer to a call that failed before its message was read.
pub(crate) fn refusal(app: &App, error: &Error) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.headers_mut() = status::error_headers(app, error);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
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
    // tonic looks at what each client accepts.
    let inference = match context.app.config.grpc_compression {
        None => inference,
        Some(Compression::Gzip) => inference.send_compressed(CompressionEncoding::Gzip),
        Some(Compression::Deflate) => inference.send_compressed(CompressionEncoding::Deflate),
        Some(Compression::Zstd) => inference.send_compressed(CompressionEncoding::Zstd),
    };
    let routes = tonic::service::Routes::new(inference).add_service(HealthServer::new(health::Service(context)));
    if reflects { reflection::add(routes) } else { routes }.into_axum_router()
}
