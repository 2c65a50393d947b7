//! Which call a request is, and refusals before an answer begins.

use super::{frames, infer, status, stream, unary};
use crate::{
    body::{Body, Incoming},
    rest,
    state::{App, Context},
};
use http::{HeaderValue, Request, Response, header::CONTENT_TYPE};
use penstock_core::{Error, Kind};
use penstock_wire::rest::error as wire;

const INFERENCE: &str = "/inference.GRPCInferenceService/";
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Whether a request speaks gRPC, on a port that serves REST too.
pub(crate) fn is_grpc<B>(request: &Request<B>) -> bool {
    request.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// The answer to a request that does not speak gRPC, on a port that speaks nothing else.
pub(crate) fn not_grpc() -> Response<Body> {
    let error = Error::invalid("this port serves gRPC only, expected the content type application/grpc");
    rest::error::json(415, wire::body(&error))
}

/// The answer to a call that failed before an answer began.
pub(crate) fn refusal(app: &App, error: &Error) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    *headers = status::error_headers(app, error);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    if error.kind() == Kind::Unsupported {
        headers.insert("grpc-accept-encoding", HeaderValue::from_static(frames::ACCEPTED));
    }
    response
}

/// Answers a call of the services here; gives back one of another service.
pub(crate) async fn answer<B: Incoming>(
    context: &Context,
    request: Request<B>,
) -> std::result::Result<Response<Body>, Request<B>> {
    let path = request.uri().path();
    if path.strip_prefix(INFERENCE) == Some("ModelInfer") {
        return Ok(infer::infer(context, request).await);
    }
    if !path.starts_with(INFERENCE) && !path.starts_with(HEALTH) {
        return Err(request);
    }
    Ok(Box::pin(other(context, request)).await)
}

/// Answers all calls but `ModelInfer`.
async fn other<B: Incoming>(context: &Context, request: Request<B>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if path.strip_prefix(INFERENCE) == Some("ModelStreamInfer") {
        return stream::answer(context, head.headers, body).unwrap_or_else(|error| refusal(&context.app, &error));
    }
    let call = unary::Call { context, headers: &head.headers, body };
    let answer = match (path.strip_prefix(INFERENCE), path.strip_prefix(HEALTH)) {
        (Some(name), _) => unary::answer(name, call).await,
        (_, Some(name)) => unary::health(name, call).await,
        _ => None,
    };
    let unknown = || Err(Error::new(Kind::MethodNotAllowed, "the service has no such call"));
    answer.unwrap_or_else(unknown).unwrap_or_else(|error| {
        context.app.metrics.refused.inc();
        refusal(&context.app, &error)
    })
}
