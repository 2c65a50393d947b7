//! `POST .../generate`, `.../generate_stream` and `.../infer_stream`.

use super::{admit::admit, events::EventStream, failure::Failure, infer::Inference};
use crate::{
    body::{Body, RequestBody, offload},
    infer::{RequestScope, RequestTelemetry, Responses, StreamTelemetry, request_headers, timing_headers},
    rest::{
        codec::{
            plain_body::{PlainBody, is_infer},
            receive::{receive, receive_whole, whole},
        },
        error,
        events::{self, EventsRequest},
        headers::{InferHeaders, json_length},
        operation::GenerateMode,
    },
    state::{App, Context, RequestGuard},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use penstock_core::{Error, Model, Result, footprint};
use penstock_wire::{
    DecodedRequest,
    rest::{
        self as wire,
        generate::{self as form, Form, GenerateRequest, Writer},
    },
};
use std::sync::Arc;

/// Answers one request.
pub(crate) async fn generate<B: RequestBody>(
    context: &Context,
    mode: GenerateMode,
    request: Inference<'_, B>,
) -> Response<Body> {
    let telemetry = RequestTelemetry::start(context, request.protocol).traced(request.headers);
    let mut found = None;
    match compute_response(context, mode, request, &telemetry, &mut found).await {
        Ok(response) => response,
        Err(failure) => failure.respond(&context.app, &telemetry, (found.as_deref(), "")),
    }
}

async fn compute_response<B: RequestBody>(
    context: &Context,
    mode: GenerateMode,
    request: Inference<'_, B>,
    telemetry: &RequestTelemetry<'_>,
    found: &mut Option<Arc<Model>>,
) -> std::result::Result<Response<Body>, Failure> {
    let Inference { path, headers, mut body, .. } = request;
    let app = &context.app;
    let find = || context.models().find(&path.model, path.version.as_deref());
    let (mut guard, model) = admit(context, &mut body, found, find, |_| Ok(())).await?;
    let (mut decoded, form) = decode(app, &model, mode, (headers, body), &mut guard).await?;
    guard.reserve_at_least(footprint::of_request(model.spec(), &decoded.request))?;
    if let Some(metadata) = &mut decoded.request.metadata {
        request_headers::describe_client(context, metadata, headers);
    }
    decoded.request.schedule.client = request_headers::client(context, &model, headers);
    let deadline = telemetry.deadline(headers, decoded.timeout)?;
    let record = StreamTelemetry::new(app, telemetry, (&model, &decoded.plan.id), status);
    let call = RequestScope { record, guard, deadline };
    let responses = Responses::start(context, &model, decoded, call);
    let result = async {
        match mode {
            GenerateMode::Generate => alone(app, responses?, form).await,
            GenerateMode::GenerateStream | GenerateMode::InferStream | GenerateMode::PlainStream => {
                // Needed for resumption only.
                let resumed_at = app.config.stream_resume.get().map(|_| events::path_of(mode, &path));
                stream(context, &model, responses?, (form, &resumed_at.unwrap_or_default())).await
            }
        }
    };
    result.await.map_err(Failure::recorded)
}

/// Decodes the request, and the form of its responses. Every mode accepts an infer request, with responses in
/// infer's form.
async fn decode<B: RequestBody>(
    app: &App,
    model: &Model,
    mode: GenerateMode,
    (headers, body): (&HeaderMap, B),
    guard: &mut RequestGuard,
) -> Result<(DecodedRequest, Form)> {
    let (spec, config) = (model.spec(), &app.config);
    if mode == GenerateMode::PlainStream {
        let described = InferHeaders::of(headers);
        let (decoded, _) = PlainBody::Always.receive(spec, (&described, headers), body, config, guard).await?;
        return Ok((decoded, Form::Plain));
    }
    if mode == GenerateMode::InferStream || json_length(headers)?.is_some() {
        return Ok((only_json(receive(spec, headers, body, config, guard).await?), Form::Infer));
    }
    let json = receive_whole(headers, body, &config.limits, guard.memory()).await?;
    if is_infer(&json).await? {
        return Ok((only_json(whole(spec, None, json, config).await?), Form::Infer));
    }
    let (length, limits, spec) = (json.len(), config.decode_limits(), Arc::clone(spec));
    let GenerateRequest { decoded, details } =
        offload::run(length, move || form::decode(&spec, &json, &limits)).await?;
    Ok((decoded, Form::Generated { details }))
}

/// Requests all outputs as JSON: events are text.
fn only_json(mut decoded: DecodedRequest) -> DecodedRequest {
    decoded.plan.binary = false;
    decoded.plan.outputs.iter_mut().flatten().for_each(|output| output.binary = false);
    decoded
}

/// Returns the only response.
async fn alone(app: &App, mut responses: Responses, form: Form) -> Result<Response<Body>> {
    let wrong = |count: &str, model: &Model| {
        Error::handler(format!(
            "generate expects exactly 1 answer, model '{}' gave {count}: call generate_stream",
            model.spec().name
        ))
    };
    let first = match responses.next().await {
        Some(response) => response?.response,
        None => return Err(wrong("none", responses.model())),
    };
    if let Some(second) = responses.next().await {
        second?;
        let error = wrong("more", responses.model());
        responses.fail(&error);
        return Err(error);
    }
    let mut body = Vec::with_capacity(256);
    let writer =
        Writer { spec: responses.model().spec(), plan: &responses.plan, form, options: app.config.encode_options() };
    writer.object(&mut body, &first)?;
    let mut response = error::json(200, Bytes::from(body));
    if app.config.timing_headers {
        timing_headers(response.headers_mut(), first.timings);
    }
    Ok(response)
}

/// Returns responses as events. An error before the first event sets the status, unless a comment is sent before it.
async fn stream(
    context: &Context,
    model: &Arc<Model>,
    mut responses: Responses,
    (form, path): (Form, &str),
) -> Result<Response<Body>> {
    let config = &context.app.config;
    let first = responses.next_within(config.stream_keepalive.get()).await;
    let (is_late, options) = (first.is_none(), config.encode_options());
    let events = match first {
        Some(first) => EventStream::new(responses, form, options, first.transpose()?)?,
        None => EventStream::late(responses, form, options),
    };
    let mut response = Response::new(());
    events::set_headers(response.headers_mut(), HeaderValue::from_static("text/event-stream; charset=utf-8"));
    Ok(events::respond(EventsRequest { context, model, path, is_late }, response, events))
}

/// Returns the logged status of a stream's outcome.
fn status(app: &App, error: Option<&Error>) -> i32 {
    error.map_or(200, |error| wire::error::status(app.config.dialect.response_kind(error.kind())).into())
}
