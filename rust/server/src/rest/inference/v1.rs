//! Calls of KServe's V1 protocol: `POST /v1/models/{model}[/versions/{version}]:predict` and `:explain`.

use super::{admit::admit, infer::Inference};
use crate::{
    body::{Body, RequestBody, offload},
    infer::{RequestTelemetry, compute, header_params, timing_headers},
    rest::{
        codec::{compress, receive::receive_whole},
        error,
        operation::{ModelPath, V1Verb},
    },
    state::{Context, ResponseMemory},
};
use bytes::Bytes;
use futures_util::future::try_join_all;
use http::Response;
use penstock_core::{Error, InferResponse, Kind, Model, ResponsePlan, Result, footprint};
use penstock_wire::{
    DecodedRequest,
    rest::v1::{self, Form, PredictRequest},
};
use std::{sync::Arc, time::Instant};

/// Returns the only key of the response.
fn key(verb: V1Verb, form: Form) -> &'static str {
    match (verb, form) {
        (V1Verb::Predict, Form::Instances(_)) => "predictions",
        (V1Verb::Predict, Form::Inputs) => "outputs",
        (V1Verb::Explain, _) => "explanations",
    }
}

/// Finds the model that answers: the named one, or its explainer.
fn find(context: &Context, verb: V1Verb, path: &ModelPath<'_>) -> Result<Arc<Model>> {
    let models = context.models();
    let model = models.find(&path.model, path.version.as_deref())?;
    match verb {
        V1Verb::Predict => Ok(model),
        V1Verb::Explain => models.find(&model.spec().explainer_name(), Some(&model.spec().version)).map_err(|_| {
            Error::new(
                Kind::Unsupported,
                format!(
                    "model '{}' cannot explain: its class has no method 'explain' with an annotated return type",
                    path.model
                ),
            )
        }),
    }
}

/// Answers one call.
pub(crate) async fn call<B: RequestBody>(context: &Context, verb: V1Verb, request: Inference<'_, B>) -> Response<Body> {
    let telemetry = RequestTelemetry::start(context, request.protocol).traced(request.headers);
    let mut model = None;
    match respond(context, verb, request, &telemetry, &mut model).await {
        Ok(response) => response,
        Err(error) => {
            let response = error::response(&context.app, &error);
            telemetry.failed(model.as_deref(), "", response.status().as_u16().into(), &error);
            response
        }
    }
}

async fn respond<B: RequestBody>(
    context: &Context,
    verb: V1Verb,
    request: Inference<'_, B>,
    telemetry: &RequestTelemetry<'_>,
    labels: &mut Option<Arc<Model>>,
) -> Result<Response<Body>> {
    let Inference { path, headers, mut body, .. } = request;
    let app = &context.app;
    let (mut guard, model) = admit(context, &mut body, labels, || find(context, verb, &path), |_| Ok(())).await?;
    let bytes = receive_whole(headers, body, &app.config.limits, guard.memory()).await?;
    let PredictRequest { requests, form, timeout } = decode(context, &model, bytes).await?;
    guard.reserve_at_least(requests.iter().map(|request| footprint::of_request(model.spec(), request)).sum())?;
    let deadline = telemetry.deadline(headers, timeout)?;
    let is_one = requests.len() == 1;
    let model = &model;
    let computed = requests.into_iter().enumerate().map(|(instance, request)| async move {
        let mut decoded = DecodedRequest { request, plan: ResponsePlan::default(), timeout: None, shared: None };
        if let Some(pattern) = &app.config.http_header_forward_pattern {
            header_params::forward(pattern, headers, &mut decoded)?;
        }
        telemetry.decoded(&mut decoded);
        let computed = compute(context, model, decoded, deadline, headers).await;
        let (_, response) = computed.map_err(|error| if is_one { error } else { blamed(instance, error) })?;
        Ok::<_, Error>(response)
    });
    let responses = try_join_all(computed).await?;
    telemetry.computed();
    let timings = responses.first().map(|response| response.timings).unwrap_or_default();
    let encoded = encode(context, model, form, key(verb, form), responses).await?;
    let mut http_response = error::json(200, encoded);
    let mut held = ResponseMemory::of(app, http_response.body().bytes())?;
    telemetry.succeeded(model, ("", 200), timings, held.as_mut());
    if app.config.timing_headers {
        timing_headers(http_response.headers_mut(), timings);
    }
    let http_response = compress::compress(&app.config, headers, http_response).await?;
    Ok(http_response.map(|body| body.with_memory(held)))
}

/// Names the instance in a client error of one among several.
fn blamed(instance: usize, error: Error) -> Error {
    match error.kind() {
        Kind::InvalidInput => Error::invalid(format!("instances[{instance}]: {}", error.message())),
        _ => error,
    }
}

/// Decodes a body; a large one on a blocking thread.
async fn decode(context: &Context, model: &Model, bytes: Bytes) -> Result<PredictRequest> {
    let (spec, limits) = (Arc::clone(model.spec()), context.app.config.decode_limits());
    offload::run(bytes.len(), move || v1::decode(&spec, &bytes, &limits)).await
}

/// Encodes the responses; large ones on a blocking thread.
async fn encode(
    context: &Context,
    model: &Model,
    form: Form,
    key: &'static str,
    responses: Vec<InferResponse>,
) -> Result<Vec<u8>> {
    let start = Instant::now();
    let options = context.app.config.encode_options();
    let tensors = responses.iter().flat_map(|response| &response.outputs);
    // As text an element takes about twice its bytes.
    let json_bytes = tensors.map(|tensor| tensor.as_slice().len()).sum::<usize>() * 2;
    let spec = Arc::clone(model.spec());
    let encoded = offload::run(json_bytes, move || v1::encode(&spec, form, key, &responses, &options)).await?;
    model.metrics().encode.observe(start.elapsed().as_secs_f64());
    Ok(encoded)
}
