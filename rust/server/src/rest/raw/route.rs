//! Requests to routes that models declare: the model receives the whole request and sets the response.

use super::{
    fallback::{FallbackRequest, RouteContext},
    stream::{StreamRequest, stream},
};
use crate::{
    body::{Body, RequestBody},
    infer::{RequestScope, RequestTelemetry, StreamTelemetry, compute, header_params, response_head, timing_headers},
    rest::{
        codec::{compress, receive::receive_whole},
        error,
        headers::JSON_LENGTH,
        inference::{admit::admit, failure::Failure, infer},
    },
    state::{App, Context, ResponseMemory},
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header::ALLOW};
use penstock_core::{
    Error, HttpRequest, InferRequest, InferResponse, Model, Protocol, RawRequest, RequestMetadata, ResponseHead,
    ResponsePlan, Result, RouteMatch, Schedule, footprint,
};
use penstock_wire::{DecodedRequest, rest::error as wire};
use percent_encoding::percent_decode_str;
use smallvec::SmallVec;
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

/// A request to a declared route.
pub(crate) struct Request<'a, B> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: B,
    pub(crate) protocol: Protocol,
}

/// Model of a path, with the route and its parameters.
pub(crate) struct Target {
    model: Arc<Model>,
    route: Arc<str>,
    path_params: Vec<(Arc<str>, String)>,
}

impl Target {
    pub(crate) fn model_name(&self) -> &str {
        &self.model.spec().name
    }

    /// Pattern of the route, without its method.
    pub(crate) fn pattern(&self) -> &str {
        self.route.split_once(' ').map_or(&self.route, |(_, pattern)| pattern)
    }
}

/// Finds the target of a method and a path. A path that is not UTF-8 once decoded has none.
///
/// # Errors
/// The methods of the path, where it has others.
pub(crate) fn find(app: &App, method: &Method, path: &str) -> std::result::Result<Option<Target>, String> {
    let decoded = |segment| percent_decode_str(segment).decode_utf8().ok();
    let segments = path.strip_prefix('/').and_then(|path| path.split('/').map(decoded).collect());
    let Some(segments): Option<SmallVec<[Cow<'_, str>; 8]>> = segments else { return Ok(None) };
    match app.registry.route(method.as_str(), &segments) {
        RouteMatch::Model { model, route, path_params } => Ok(Some(Target { model, route, path_params })),
        RouteMatch::OtherMethods(allowed) => Err(allowed),
        RouteMatch::NotFound => Ok(None),
    }
}

/// Finds a declared route that replaces a path of V2 inference. Requests with raw tensors are excluded: the server
/// decodes them.
pub(crate) fn find_infer(app: &App, path: &str, headers: &HeaderMap) -> Option<Target> {
    if headers.contains_key(JSON_LENGTH) {
        return None;
    }
    // A pattern does not match inference paths.
    find(app, &Method::POST, path).ok().flatten().filter(|target| target.path_params.is_empty())
}

/// Adds the methods of declared routes to `Allow`, if no built-in route answered.
pub(crate) fn with_allowed_methods(response: Response<Body>, methods: &str) -> Response<Body> {
    if !error::is_of_no_route(&response) {
        return response;
    }
    let built_in = response.headers().get_all(ALLOW).iter().filter_map(|value| value.to_str().ok());
    let all: BTreeSet<&str> = built_in.chain([methods]).flat_map(|list| list.split(',').map(str::trim)).collect();
    let allowed = HeaderValue::try_from(all.into_iter().collect::<Vec<_>>().join(", "));
    let mut refused = error::method_not_allowed();
    refused.headers_mut().extend(allowed.ok().map(|allowed| (ALLOW, allowed)));
    refused
}

/// Answers one request.
pub(crate) async fn respond<B: RequestBody>(
    context: &Context,
    target: Target,
    request: Request<'_, B>,
) -> Response<Body> {
    let telemetry = RequestTelemetry::start(context, request.protocol).traced(request.headers);
    let (model, id) = (Arc::clone(&target.model), id(request.headers));
    match compute_response(context, target, request, &telemetry, &id).await {
        Ok(response) => response,
        Err(failure) => failure.respond(&context.app, &telemetry, (Some(&*model), &*id)),
    }
}

async fn compute_response<B: RequestBody>(
    context: &Context,
    target: Target,
    request: Request<'_, B>,
    telemetry: &RequestTelemetry<'_>,
    id: &str,
) -> std::result::Result<Response<Body>, Failure> {
    let Request { method, path, query, headers, mut body, protocol } = request;
    let Target { model, route, path_params } = target;
    let app = &context.app;
    let (mut guard, model) = admit(context, &mut body, &mut None, || Ok(model), |_| Ok(())).await?;
    let body = receive_whole(headers, body, &app.config.limits, guard.memory()).await?;
    if is_json(&body) {
        guard.reserve_at_least(body.len() + footprint::of_json(&body))?;
    }
    let is_head = method == Method::HEAD;
    let http = HttpRequest {
        route,
        method: named(method),
        path: path.to_owned(),
        query: query.to_owned(),
        path_params,
        body,
        primary_error: None,
    };
    let fallback = FallbackRequest::of(&model, &http);
    let route_context = RouteContext { context, headers, telemetry, id, protocol };
    let mut decoded = decoded(route_context, http)?;
    let deadline = telemetry.deadline(headers, None)?;
    if model.spec().streams {
        let record = StreamTelemetry::new(app, telemetry, (&model, id), status);
        let scope = RequestScope { record, guard, deadline };
        // Boxed: most responses are not streamed, and would carry this future's size.
        let request = StreamRequest { model: &model, headers, path, is_head };
        return Box::pin(stream(context, request, decoded, scope)).await.map_err(Failure::recorded);
    }
    telemetry.decoded(&mut decoded);
    let (model, computed) = match fallback {
        None => {
            let computed = compute(context, &model, decoded, deadline, headers).await;
            (model, computed)
        }
        // Boxed: other requests would carry this future's size.
        Some(fallback) => Box::pin(fallback.compute(route_context, decoded)).await,
    };
    let (plan, mut response) = computed?;
    telemetry.computed();
    let timings = response.timings;
    let head = response_head::take(&mut response).unwrap_or_default();
    let refused = response_head::to_error(&head);
    let mut http_response = match head.body.is_some() || response.outputs.is_empty() {
        true => response_head::to_response(app, &model, &head)?,
        false => Box::pin(with_tensors(context, &model, (plan, response), &head)).await?,
    };
    let mut held = ResponseMemory::of(app, http_response.body().bytes())?;
    let status = http_response.status().as_u16().into();
    telemetry.completed(&model, (id, status), timings, refused.as_ref(), held.as_mut());
    if app.config.timing_headers {
        timing_headers(http_response.headers_mut(), timings);
    }
    let http_response = compress::compress(&app.config, headers, http_response).await?;
    Ok(http_response.map(|body| body.with_memory(held)))
}

/// Builds the request for the model: the HTTP request, without tensors.
///
/// # Errors
/// `InvalidInput` for a header that would be forwarded under a reserved name.
pub(crate) fn decoded(route_context: RouteContext<'_>, http: HttpRequest) -> Result<DecodedRequest> {
    let RouteContext { context, headers, id, protocol, .. } = route_context;
    let metadata = RequestMetadata { id: id.to_owned(), ..RequestMetadata::default() };
    let request = InferRequest {
        inputs: SmallVec::new(),
        rows: 1,
        metadata: Some(Box::new(metadata)),
        deadline: None,
        protocol,
        schedule: Schedule::default(),
        takes_ownership: false,
        context: None,
        raw: Some(Box::new(RawRequest { http: Some(Box::new(http)), takes_events: true, ..RawRequest::default() })),
    };
    let plan = ResponsePlan { id: id.to_owned(), ..ResponsePlan::default() };
    let mut decoded = DecodedRequest { request, plan, timeout: None, shared: None };
    if let Some(pattern) = &context.app.config.http_header_forward_pattern {
        header_params::forward(pattern, headers, &mut decoded)?;
    }
    Ok(decoded)
}

/// Returns a method's name, without an allocation for common ones.
fn named(method: &Method) -> Cow<'static, str> {
    let known = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"];
    let known = known.into_iter().find(|&name| method == name);
    known.map_or_else(|| Cow::Owned(method.as_str().to_owned()), Cow::Borrowed)
}

/// Reports whether a body looks like JSON, which the handler will parse in Python.
fn is_json(body: &[u8]) -> bool {
    body.trim_ascii_start().first().is_some_and(|first| matches!(first, b'{' | b'['))
}

/// Longest id in a header, in bytes.
const MAX_ID_BYTES: usize = 256;

/// Returns the request's id, empty if it has none.
fn id(headers: &HeaderMap) -> String {
    let given = headers.get("x-request-id").and_then(|id| id.to_str().ok());
    given.filter(|id| id.len() <= MAX_ID_BYTES).unwrap_or_default().to_owned()
}

/// Encodes a response of tensors in V2's form.
async fn with_tensors(
    context: &Context,
    model: &Arc<Model>,
    (plan, response): (ResponsePlan, InferResponse),
    head: &ResponseHead,
) -> Result<Response<Body>> {
    let mut http_response = infer::in_json(context, model, plan, response).await?;
    response_head::apply(&context.app, model, head, &mut http_response)?;
    Ok(http_response)
}

/// Returns the logged status of a stream's outcome.
fn status(app: &App, error: Option<&Error>) -> i32 {
    let refused = |error: &Error| wire::status(app.config.dialect.response_kind(error.kind()));
    error.map_or(StatusCode::OK.as_u16(), refused).into()
}

#[cfg(test)]
mod tests;
