//! Routes that hosting platforms call: one for health and one for predictions, on one model.

use super::{
    infer::{Inference, infer},
    v1,
};
use crate::{
    body::{Body, RequestBody, offload},
    infer::RequestTelemetry,
    rest::{
        codec::receive::receive_whole,
        error,
        operation::{ModelPath, V1Verb},
    },
    settings::{Category, Platforms, Requirement},
    state::Context,
};
use http::{
    HeaderMap, HeaderValue, Method, Response,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName},
};
use http_body_util::Full;
use penstock_core::{Error, Kind, Protocol, Result};
use penstock_wire::rest::{metadata, v1 as wire};
use std::borrow::Cow;

/// SageMaker forwards few headers, so Triton's clients write the JSON's length into the content type.
const BINARY: &str = "application/vnd.sagemaker-triton.binary+json;json-header-size=";

const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// Call of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlatformCall {
    Health,
    Predict,
    /// Another method of one of the routes.
    Wrong,
}

impl PlatformCall {
    /// Returns the secret that requests must carry.
    pub(crate) fn requirement(self) -> Requirement {
        Requirement::Category(if self == Self::Predict { Category::Inference } else { Category::Health })
    }

    /// Parses a request; `None` if the path is not a platform's.
    pub(crate) fn parse(platforms: &Platforms, method: &Method, path: &str) -> Option<Self> {
        if platforms.routes.iter().any(|routes| routes.predict == path) {
            return Some(if method == Method::POST { Self::Predict } else { Self::Wrong });
        }
        let is_health = platforms.routes.iter().any(|routes| routes.health == path);
        let reads = [Method::GET, Method::HEAD].contains(method);
        is_health.then_some(if reads { Self::Health } else { Self::Wrong })
    }
}

/// Request of a platform.
pub(crate) struct Request<'a, B> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: B,
    pub(crate) protocol: Protocol,
}

/// Answers a platform.
pub(crate) async fn respond<B: RequestBody>(
    context: &Context,
    platforms: &Platforms,
    call: PlatformCall,
    request: Request<'_, B>,
) -> Response<Body> {
    match call {
        PlatformCall::Health => health(context, platforms),
        PlatformCall::Wrong => error::method_not_allowed(),
        PlatformCall::Predict => {
            let telemetry = RequestTelemetry::start(context, request.protocol);
            predict(context, platforms, request).await.unwrap_or_else(|error| {
                let response = error::response(&context.app, &error);
                telemetry.failed(None, "", response.status().as_u16().into(), &error);
                response
            })
        }
    }
}

fn health(context: &Context, platforms: &Platforms) -> Response<Body> {
    let ready = match context.app.unready_reason() {
        Some(reason) => Err(Error::new(Kind::Unavailable, reason)),
        None => model(context, platforms).and_then(|name| context.models().find(&name, None)?.check_ready()),
    };
    match ready {
        Ok(()) => error::json(200, metadata::ready(None, true)),
        Err(error) => {
            error::json(503, metadata::ready(Some(error.message()), context.app.liveness.stalled().is_none()))
        }
    }
}

/// Passes the request to the protocol of its body: V1 with `instances`, else V2.
async fn predict<B: RequestBody>(
    context: &Context,
    platforms: &Platforms,
    request: Request<'_, B>,
) -> Result<Response<Body>> {
    let Request { headers, body, protocol } = request;
    let path = ModelPath { model: Cow::Owned(model(context, platforms)?), version: None };
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if let Some(length) = kind.replace(' ', "").strip_prefix(BINARY) {
        let mut headers = headers.clone();
        headers.insert(
            JSON_LENGTH,
            HeaderValue::try_from(length).map_err(|_| {
                Error::invalid("the header Content-Type has an invalid json-header-size, expected a number of bytes")
            })?,
        );
        let response = infer(context, Inference { path, query: None, headers: &headers, body, protocol }).await;
        return Ok(in_content_type(response));
    }
    if headers.contains_key(JSON_LENGTH) {
        return Ok(infer(context, Inference { path, query: None, headers, body, protocol }).await);
    }
    let config = &context.app.config;
    let mut guard = context.app.enter_sequence()?;
    let bytes = receive_whole(headers, body, &config.limits, guard.memory()).await?;
    drop(guard);
    let limits = config.decode_limits();
    let (is_v1, bytes) = offload::run(bytes.len(), move || Ok((wire::has_instances(&bytes, &limits), bytes))).await?;
    let mut headers = headers.clone();
    // The body is inflated already.
    headers.remove(CONTENT_ENCODING);
    let request = Inference { path, query: None, headers: &headers, body: Full::new(bytes), protocol };
    Ok(if is_v1 { v1::call(context, V1Verb::Predict, request).await } else { infer(context, request).await })
}

/// Writes the JSON's length of a binary response into its content type.
fn in_content_type(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    if let Some(length) = headers.remove(JSON_LENGTH) {
        let kind = format!("{BINARY}{}", length.to_str().unwrap_or_default());
        headers.extend(HeaderValue::try_from(kind).ok().map(|kind| (CONTENT_TYPE, kind)));
    }
    response
}

/// Returns the model that platforms call: the configured one, else the only one.
fn model(context: &Context, platforms: &Platforms) -> Result<String> {
    if let Some(name) = &platforms.model {
        return Ok(name.clone());
    }
    let models = context.models().all();
    // An explainer has a colon in its name.
    let mut names: Vec<&str> =
        models.iter().map(|model| &*model.spec().name).filter(|name| !name.contains(':')).collect();
    names.dedup();
    match names.as_slice() {
        [only] => Ok((*only).to_owned()),
        _ => Err(Error::new(
            Kind::Unavailable,
            format!("the server has {} models, and the setting hosted_model names none of them", names.len()),
        )),
    }
}
