//! Dispatch of gRPC calls by their path, and refusals.

use super::{frames, status, stream, unary};
use crate::{
    body::{Body, RequestBody},
    settings::Category,
    state::{App, Context},
};
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE, request::Parts};
use penstock_core::{Error, Kind, Result};

const INFERENCE: &str = "/inference.GRPCInferenceService/";
/// Full name of the call with one request.
pub(crate) const INFERENCE_CALL: &str = "inference.GRPCInferenceService/ModelInfer";
/// Full name of the call with any number of requests.
pub(crate) const INFERENCE_STREAM: &str = "inference.GRPCInferenceService/ModelStreamInfer";
const NO_SUCH_CALL: &str = "the service has no such call";
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Reports whether a request is a gRPC call, on a port that serves REST too.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Response to a call that failed before its first message.
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

/// Checks that a call carries the secret of its category, and that its key has the scope.
///
/// # Errors
/// `Forbidden` that names the metadata's key; `MethodNotAllowed` for calls that only the admin address serves.
pub(crate) fn check_access(context: &Context, head: &Parts) -> Result<()> {
    if context.app.config.access.is_open() && context.key.is_none() && context.hidden.is_empty() {
        return Ok(());
    }
    let category = category(head.uri.path());
    if context.hidden.contain(category) {
        return Err(Error::new(Kind::MethodNotAllowed, NO_SUCH_CALL));
    }
    context.check_grpc(category, &head.headers)
}

/// Returns the access category of a call.
fn category(path: &str) -> Category {
    let (service, call) = path.rsplit_once('/').unwrap_or(("", path));
    match call {
        _ if service == "/grpc.health.v1.Health" => Category::Health,
        "ServerLive" | "ServerReady" | "ModelReady" => Category::Health,
        "ModelInfer" | "ModelStreamInfer" => Category::Inference,
        "ModelConfig" => Category::ModelConfig,
        "ModelStatistics" => Category::Statistics,
        "TraceSetting" => Category::Trace,
        "LogSettings" => Category::Logging,
        _ if call.contains("SharedMemory") => Category::SharedMemory,
        _ if call.starts_with("Repository") => Category::ModelRepository,
        _ => Category::Metadata,
    }
}

/// Reports whether a path is that of `ModelInfer`.
pub(crate) fn is_inference(path: &str) -> bool {
    path.strip_prefix('/') == Some(INFERENCE_CALL)
}

/// Reports whether a path is that of `ModelStreamInfer`.
pub(crate) fn is_inference_stream(path: &str) -> bool {
    path.strip_prefix('/') == Some(INFERENCE_STREAM)
}

/// Answers a call of a known service, except `ModelInfer`; returns a request of another service.
pub(crate) async fn call<B: RequestBody + 'static>(
    context: &Context,
    head: Parts,
    body: B,
) -> std::result::Result<Response<Body>, Request<B>> {
    let path = head.uri.path();
    if !path.starts_with(INFERENCE) && !path.starts_with(HEALTH) {
        return Err(Request::from_parts(head, body));
    }
    Ok(known(context, head, body).await)
}

async fn known<B: RequestBody + 'static>(context: &Context, head: Parts, body: B) -> Response<Body> {
    let path = head.uri.path();
    if is_inference_stream(path) {
        return stream::call(context, head.headers, body).unwrap_or_else(|error| refusal(&context.app, &error));
    }
    let call = unary::Call { context, headers: &head.headers, body };
    let response = match (path.strip_prefix(INFERENCE), path.strip_prefix(HEALTH)) {
        (Some(name), _) => unary::call(name, call).await,
        (_, Some(name)) => unary::health(name, call).await,
        _ => None,
    };
    let unknown = || Err(Error::new(Kind::MethodNotAllowed, NO_SUCH_CALL));
    response.unwrap_or_else(unknown).unwrap_or_else(|error| {
        context.audit_denied(&error, head.method.as_str(), path);
        context.app.metrics.refused.add(error.kind());
        refusal(&context.app, &error)
    })
}
