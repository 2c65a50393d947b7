//! `POST /v2/models/{model}[/versions/{version}]/infer`.

use super::admit::admit;
use crate::{
    body::{
        Body, RequestBody,
        offload::{self, Offloaded},
    },
    infer::{RequestLabels, RequestTelemetry, compute, header_params, response_head, timing_headers},
    rest::{
        codec::{array_bodies as bodies, array_bodies::Formats, compress, receive::receive},
        error,
        operation::ModelPath,
    },
    state::{Context, ResponseMemory},
};
use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use penstock_core::{Error, InferResponse, Kind, Model, Protocol, ResponseHead, ResponsePlan, Result, footprint};
use penstock_wire::rest::{self as wire, EncodeOptions, Encoded, bodies::Format};
use std::{sync::Arc, time::Instant};

/// An inference request with a parsed path.
pub(crate) struct Inference<'a, B> {
    pub(crate) path: ModelPath<'a>,
    /// Parameters of bodies in array formats.
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: B,
    pub(crate) protocol: Protocol,
}

/// Answers one inference request.
pub(crate) async fn infer<B: RequestBody>(context: &Context, request: Inference<'_, B>) -> Response<Body> {
    let telemetry = RequestTelemetry::start(&context.app, request.protocol).traced(request.headers);
    let mut labels = RequestLabels::default();
    match compute_response(context, request, &telemetry, &mut labels).await {
        Ok(response) => response,
        Err(error) => {
            let response = error::response(&context.app, &error);
            telemetry.failed(labels.model.as_deref(), &labels.id, response.status().as_u16().into(), &error);
            response
        }
    }
}

async fn compute_response<B: RequestBody>(
    context: &Context,
    request: Inference<'_, B>,
    telemetry: &RequestTelemetry<'_>,
    labels: &mut RequestLabels,
) -> Result<Response<Body>> {
    let Inference { path, query, headers, mut body, .. } = request;
    let app = &context.app;
    let find = || app.registry.find(&path.model, path.version.as_deref());
    let (mut guard, model) = admit(app, &mut body, &mut labels.model, find, Model::check_single_response).await?;
    let formats = Formats::of(headers);
    let mut decoded = match formats.request {
        None => receive(model.spec(), headers, body, &app.config, &mut guard).await?,
        Some(format) => {
            let request = bodies::ArrayRequest { format, query, headers };
            Box::pin(bodies::receive(model.spec(), request, body, &app.config, &mut guard)).await?
        }
    };
    guard.reserve_at_least(footprint::of_request(model.spec(), &decoded.request))?;
    if let Some(format) = formats.response.filter(|_| !model.spec().raw_requests) {
        wire::bodies::check_response(format, model.spec(), &decoded.plan)?;
    }
    if app.log.logs_requests() {
        labels.id.clone_from(&decoded.plan.id);
    }
    if let Some(pattern) = &app.config.http_header_forward_pattern {
        header_params::forward(pattern, headers, &mut decoded)?;
    }
    let deadline = telemetry.deadline(headers, decoded.timeout)?;
    telemetry.decoded(&mut decoded);
    let (plan, mut response) = compute(context, &model, decoded, deadline, headers).await?;
    telemetry.computed();
    let timings = response.timings;
    let head = response_head::take(&mut response);
    let (mut http_response, plan) =
        encode_response(context, &model, formats.response, head.as_ref(), (plan, response)).await?;
    let memory = ResponseMemory::of(app, http_response.body().bytes())?;
    match head {
        None => telemetry.succeeded(&model, &plan.id, 200, timings),
        Some(head) => {
            response_head::apply(app, &model, &head, &mut http_response)?;
            let status = (&*plan.id, head.status.into());
            telemetry.completed(&model, status, timings, response_head::to_error(&head).as_ref());
        }
    }
    if app.config.timing_headers {
        timing_headers(http_response.headers_mut(), timings);
    }
    let http_response = compress::compress(&app.config, headers, http_response).await?;
    Ok(http_response.map(|body| body.with_memory(memory)))
}

/// Encodes a response: the body of its head, or its tensors in the requested format.
async fn encode_response(
    context: &Context,
    model: &Arc<Model>,
    format: Option<Format>,
    head: Option<&ResponseHead>,
    (plan, response): (ResponsePlan, InferResponse),
) -> Result<(Response<Body>, ResponsePlan)> {
    let start = Instant::now();
    let encoded = match (head.filter(|head| head.body.is_some()), format) {
        (Some(head), _) => (response_head::to_response(&context.app, model, head)?, plan),
        (None, None) => {
            let (encoded, plan) = encode(context, model, plan, response).await?;
            (respond(encoded)?, plan)
        }
        (None, Some(format)) => Box::pin(bodies::encode(format, model, plan, response)).await?,
    };
    model.metrics().encode.observe(start.elapsed().as_secs_f64());
    Ok(encoded)
}

/// Encodes a response as JSON.
pub(crate) async fn in_json(
    context: &Context,
    model: &Arc<Model>,
    plan: ResponsePlan,
    response: InferResponse,
) -> Result<Response<Body>> {
    respond(encode(context, model, plan, response).await?.0)
}

/// Encodes a response; large JSON on a blocking thread.
fn encode(
    context: &Context,
    model: &Model,
    plan: ResponsePlan,
    response: InferResponse,
) -> Offloaded<(Encoded, ResponsePlan)> {
    let options = EncodeOptions { strict_json: context.app.config.strict_json };
    let selected = response.selected(&plan);
    let as_json = selected
        .iter()
        .filter(|(output, _)| !output.binary && !output.shared)
        .map(|(_, tensor)| tensor.as_slice().len());
    // As text an element takes about twice its bytes.
    let json_bytes = as_json.sum::<usize>() * 2;
    drop(selected);
    let spec = Arc::clone(model.spec());
    offload::run(json_bytes, move || Ok((wire::encode(&spec, &plan, &response, &options)?, plan)))
}

fn respond(encoded: Encoded) -> Result<Response<Body>> {
    let mut http_response = Response::new(Body::new(encoded.chunks));
    let headers = http_response.headers_mut();
    match encoded.json_len {
        None => drop(headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"))),
        Some(length) => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            let length =
                u64::try_from(length).map_err(|_| Error::new(Kind::Internal, "a response without a length"))?;
            headers.insert("inference-header-content-length", HeaderValue::from(length));
        }
    }
    Ok(http_response)
}
