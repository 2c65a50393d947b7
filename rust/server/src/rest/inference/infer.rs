//! `POST /v2/models/{model}[/versions/{version}]/infer`.

use super::admit::admit;
use crate::{
    body::{
        Body, RequestBody,
        offload::{self, Offloaded},
    },
    infer::{
        RequestLabels, RequestTelemetry, Submission, complete, header_params, response_head, submit, timing_headers,
    },
    rest::{
        codec::{
            array_bodies as bodies,
            array_bodies::Formats,
            compress,
            plain_body::{PlainBody, PlainForm},
            receive::{BodyHead, receive_described},
        },
        error,
        headers::{InferHeaders, content_coding, to_json_length},
        operation::ModelPath,
    },
    state::{Context, RequestGuard, ResponseMemory},
};
use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use penstock_core::{
    Error, InferResponse, Kind, Model, Protocol, ResponseHead, ResponsePlan, Result, classify, footprint,
};
use penstock_wire::{
    DecodedRequest,
    rest::{self as wire, Encoded, bodies::Format},
};
use std::{pin::Pin, sync::Arc, time::Instant};

/// An inference request with a parsed path.
pub(crate) struct Inference<'a, B> {
    pub(crate) path: ModelPath<'a>,
    /// Parameters of bodies in array formats.
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: B,
    pub(crate) protocol: Protocol,
}

/// Form of a response's body.
#[derive(Debug)]
enum ResponseForm {
    /// The protocol's own.
    Infer,
    Array(Format),
    Plain(Box<PlainForm>),
}

/// Answers one inference request of the protocol, or one in plain types where the model has such.
pub(crate) fn infer<'a, B: RequestBody>(
    context: &'a Context,
    request: Inference<'a, B>,
) -> impl Future<Output = Response<Body>> + Send {
    infer_as(context, PlainBody::ByShape, request)
}

/// Answers one inference request whose body may be plain.
pub(crate) async fn infer_as<B: RequestBody>(
    context: &Context,
    plain: PlainBody,
    mut request: Inference<'_, B>,
) -> Response<Body> {
    let telemetry = RequestTelemetry::start(context, request.protocol).traced(request.headers);
    let mut labels = RequestLabels::default();
    match compute_response(context, plain, &mut request, &telemetry, &mut labels).await {
        Ok(response) => response,
        Err(error) => {
            let response = error::response(&context.app, &error);
            telemetry.failed(labels.model.as_deref(), &labels.id, response.status().as_u16().into(), &error);
            response
        }
    }
}

/// Admits, decodes, submits and encodes one request.
///
/// The stages that a plain request needs are functions, and the rarer ones are boxed: what a future holds at an `await`
/// is moved with each request.
async fn compute_response<B: RequestBody>(
    context: &Context,
    plain: PlainBody,
    request: &mut Inference<'_, B>,
    telemetry: &RequestTelemetry<'_>,
    labels: &mut RequestLabels,
) -> Result<Response<Body>> {
    let Inference { path, query, headers, body, .. } = request;
    let (app, query, headers) = (&context.app, *query, *headers);
    let find = || context.models().find(&path.model, path.version.as_deref());
    let (mut guard, model) = admit(context, body, &mut labels.model, find, Model::check_single_response).await?;
    let described = InferHeaders::of(headers);
    let formats = Formats::of(&described);
    let mut form = formats.response.map_or(ResponseForm::Infer, ResponseForm::Array);
    let decoded = match formats.request {
        None if plain.may_be(model.spec(), &described) => {
            let head = (&described, headers);
            let (decoded, is_plain) =
                Box::pin(plain.receive(model.spec(), head, body, &app.config, &mut guard)).await?;
            if is_plain && formats.response.is_none() {
                form = ResponseForm::Plain(Box::new(PlainForm::of(model.spec(), described.accept)));
            }
            decoded
        }
        None => {
            let coding = if described.content_encoding.is_some() { content_coding(headers)? } else { None };
            let head = BodyHead { coding, json_len: to_json_length(described.json_length)? };
            receive_described(model.spec(), head, body, &app.config, &mut guard).await?
        }
        Some(format) => {
            let request = bodies::ArrayRequest { format, query, headers };
            Box::pin(bodies::receive(model.spec(), request, body, &app.config, &mut guard)).await?
        }
    };
    let call = Call { context, model: &model, headers, telemetry, form: &form };
    let (mut submission, plan) = call.submit(decoded, described.timeout, &mut guard, &mut labels.id)?;
    let response = submission.wait().await?;
    telemetry.computed();
    // Not awaited in the match, whose value would be a part of the future.
    let later = match call.respond(plan, response) {
        Responded::Now(response) => return response,
        Responded::Later(response) => response,
    };
    later.await
}

/// A request that is admitted and decoded.
#[derive(Clone, Copy)]
struct Call<'a> {
    context: &'a Context,
    model: &'a Arc<Model>,
    headers: &'a HeaderMap,
    telemetry: &'a RequestTelemetry<'a>,
    form: &'a ResponseForm,
}

/// A response, or the future of one that takes more steps.
#[expect(clippy::large_enum_variant, reason = "a box would be one more allocation for every request")]
enum Responded<'a> {
    Now(Result<Response<Body>>),
    Later(Pin<Box<dyn Future<Output = Result<Response<Body>>> + Send + 'a>>),
}

impl<'a> Call<'a> {
    /// Submits a request, with its decoded size reserved in `guard`. Sets `id` where requests are logged.
    fn submit(
        &self,
        mut decoded: DecodedRequest,
        timeout: Option<&HeaderValue>,
        guard: &mut RequestGuard,
        id: &mut String,
    ) -> Result<(Submission<'a>, ResponsePlan)> {
        let Self { context, model, headers, telemetry, form } = *self;
        let app = &context.app;
        guard.reserve_at_least(footprint::of_request(model.spec(), &decoded.request))?;
        if let ResponseForm::Array(format) = *form
            && !model.spec().raw_requests
        {
            wire::bodies::check_response(format, model.spec(), &decoded.plan)?;
        }
        if app.log.observes_requests() || app.live.is_watched() {
            id.clone_from(&decoded.plan.id);
        }
        if let Some(pattern) = &app.config.http_header_forward_pattern {
            header_params::forward(pattern, headers, &mut decoded)?;
        }
        let deadline = telemetry.deadline_within(timeout, decoded.timeout)?;
        telemetry.decoded(&mut decoded);
        submit(context, model, decoded, deadline, headers)
    }

    /// Encodes a response. One without a head or rare options is encoded at once, if it is small.
    fn respond(self, plan: ResponsePlan, response: InferResponse) -> Responded<'a> {
        let config = &self.context.app.config;
        let is_simple =
            response.head.is_none() && !matches!(self.form, ResponseForm::Array(_)) && !config.compress_answers;
        if is_simple && !classify::is_requested(&plan) && json_bytes(&plan, &response) < offload::MIN_BYTES {
            return Responded::Now(self.respond_now(&plan, &response));
        }
        Responded::Later(Box::pin(self.respond_later(plan, response)))
    }

    fn respond_now(&self, plan: &ResponsePlan, response: &InferResponse) -> Result<Response<Body>> {
        let Self { context, model, telemetry, .. } = *self;
        let start = Instant::now();
        let options = context.app.config.encode_options();
        let mut http_response = match self.form {
            ResponseForm::Plain(form) => form.encode(model.spec(), response, &options)?,
            _ => to_http(wire::encode(model.spec(), plan, response, &options)?)?,
        };
        model.metrics().encode.observe(start.elapsed().as_secs_f64());
        let mut memory = ResponseMemory::of(&context.app, http_response.body().bytes())?;
        telemetry.succeeded(model, (&plan.id, 200), response.timings, memory.as_mut());
        if context.app.config.timing_headers {
            timing_headers(http_response.headers_mut(), response.timings);
        }
        Ok(http_response.map(|body| body.with_memory(memory)))
    }

    async fn respond_later(self, plan: ResponsePlan, response: InferResponse) -> Result<Response<Body>> {
        let Self { context, model, headers, telemetry, form } = self;
        let app = &context.app;
        let (plan, mut response) = complete(model, plan, response).await?;
        let timings = response.timings;
        let head = response_head::take(&mut response);
        let (mut http_response, plan) = encode_response(context, model, form, head.as_ref(), (plan, response)).await?;
        let mut memory = ResponseMemory::of(app, http_response.body().bytes())?;
        match head {
            None => telemetry.succeeded(model, (&plan.id, 200), timings, memory.as_mut()),
            Some(head) => {
                response_head::apply(app, model, &head, &mut http_response)?;
                let status = (&*plan.id, head.status.into());
                let refused = response_head::to_error(&head);
                telemetry.completed(model, status, timings, refused.as_ref(), memory.as_mut());
            }
        }
        if app.config.timing_headers {
            timing_headers(http_response.headers_mut(), timings);
        }
        let http_response = compress::compress(&app.config, headers, http_response).await?;
        Ok(http_response.map(|body| body.with_memory(memory)))
    }
}

/// Encodes a response: the body of its head, or its tensors in the requested format.
async fn encode_response(
    context: &Context,
    model: &Arc<Model>,
    form: &ResponseForm,
    head: Option<&ResponseHead>,
    (plan, response): (ResponsePlan, InferResponse),
) -> Result<(Response<Body>, ResponsePlan)> {
    let start = Instant::now();
    let encoded = match (head.filter(|head| head.body.is_some()), form) {
        (Some(head), _) => (response_head::to_response(&context.app, model, head)?, plan),
        (None, ResponseForm::Array(format)) => bodies::encode(*format, model, plan, response).await?,
        (None, ResponseForm::Plain(form)) => {
            let (spec, options, own) = (Arc::clone(model.spec()), context.app.config.encode_options(), form.clone());
            let bytes = json_bytes(&plan, &response);
            (offload::run(bytes, move || own.encode(&spec, &response, &options)).await?, plan)
        }
        (None, ResponseForm::Infer) => {
            let (encoded, plan) = encode(context, model, plan, response).await?;
            (to_http(encoded)?, plan)
        }
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
    to_http(encode(context, model, plan, response).await?.0)
}

/// Encodes a response; large JSON on a blocking thread.
fn encode(
    context: &Context,
    model: &Model,
    plan: ResponsePlan,
    response: InferResponse,
) -> Offloaded<(Encoded, ResponsePlan)> {
    let (bytes, options) = (json_bytes(&plan, &response), context.app.config.encode_options());
    let spec = Arc::clone(model.spec());
    offload::run(bytes, move || Ok((wire::encode(&spec, &plan, &response, &options)?, plan)))
}

/// Returns about the bytes of a response's JSON. As text an element takes twice its bytes.
fn json_bytes(plan: &ResponsePlan, response: &InferResponse) -> usize {
    let selected = response.selected(plan);
    let as_json = selected.iter().filter(|(output, _)| !output.binary && !output.shared);
    as_json.map(|(_, tensor)| tensor.as_slice().len()).sum::<usize>() * 2
}

fn to_http(encoded: Encoded) -> Result<Response<Body>> {
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
