//! KServe's V1 protocol: `POST /v1/models/{model}[/versions/{version}]:predict` and `:explain`, and the
//! routes around them.

use super::{admit::admit, infer::Inference};
use crate::{
    body::{Body, Incoming, offload},
    infer::{Observed, compute, header_params, timing_headers},
    rest::{
        codec::{
            compress,
            receive::{receive_whole, wire_limits},
        },
        error,
        path::InferPath,
        router::{answer, models, ok, readiness},
    },
    state::{Context, HeldAnswer},
};
use axum::{
    Router,
    extract::{Path, State},
    routing::get,
};
use bytes::Bytes;
use futures_util::future::try_join_all;
use http::{HeaderValue, Response, header::ALLOW};
use penstock_core::{Error, InferResponse, Kind, Model, ResponsePlan, Result, footprint};
use penstock_wire::{
    DecodedRequest,
    rest::{
        EncodeOptions, metadata,
        v1::{self, Form, PredictRequest},
    },
};
use std::{sync::Arc, time::Instant};

/// What is asked of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Its outputs.
    Predict,
    /// Why they are what they are.
    Explain,
}

impl Verb {
    /// Parses `/v1/models/{model}[/versions/{version}]:{verb}`, whose colon may be percent-encoded; `None`
    /// for any other path.
    pub(crate) fn parse(path: &str) -> Option<(InferPath<'_>, Self)> {
        let rest = path.strip_prefix("/v1/models/")?;
        let verbs = [("predict", Self::Predict), ("explain", Self::Explain)];
        verbs.into_iter().find_map(|(name, verb)| {
            let named = rest.strip_suffix(name)?;
            let named = [":", "%3A", "%3a"].into_iter().find_map(|colon| named.strip_suffix(colon))?;
            Some((InferPath::named(named)?, verb))
        })
    }

    /// The only key of the answer.
    fn key(self, form: Form) -> &'static str {
        match (self, form) {
            (Self::Predict, Form::Instances(_)) => "predictions",
            (Self::Predict, Form::Inputs) => "outputs",
            (Self::Explain, _) => "explanations",
        }
    }

    /// The model that answers: itself, or the explainer that goes with it.
    fn find(self, context: &Context, path: &InferPath<'_>) -> Result<Arc<Model>> {
        let registry = &context.app.registry;
        let model = registry.find(&path.model, path.version.as_deref())?;
        match self {
            Self::Predict => Ok(model),
            Self::Explain => registry.find(&model.spec().explainer(), Some(&model.spec().version)).map_err(|_| {
                Error::new(
                    Kind::Unsupported,
                    format!(
                        "model '{}' cannot explain: its class has no method 'explain' that says what it returns",
                        path.model
                    ),
                )
            }),
        }
    }
}

/// The routes beside the calls themselves.
pub(crate) fn routes() -> Router<Context> {
    Router::new()
        .route("/", get(alive))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/v1/models/{model}/versions/{version}", get(version))
}

/// KServe's liveness.
async fn alive() -> axum::response::Response {
    ok(metadata::alive())
}

async fn model(State(context): State<Context>, Path(model): Path<String>) -> axum::response::Response {
    state(&context, &model, None)
}

async fn version(
    State(context): State<Context>,
    Path((model, version)): Path<(String, String)>,
) -> axum::response::Response {
    state(&context, &model, Some(&version))
}

fn state(context: &Context, model: &str, version: Option<&str>) -> axum::response::Response {
    match context.app.registry.why_not_ready(model, version) {
        Ok(reason) => readiness(context, model, reason.as_deref()),
        Err(error) => answer(context, Err(error)),
    }
}

/// The answer to any other method of a call's path, whose verb the router takes for a part of a name.
pub(crate) fn takes_post() -> Response<Body> {
    let mut response = error::method_not_allowed();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Answers one call.
pub(crate) async fn call<B: Incoming>(context: &Context, verb: Verb, request: Inference<'_, B>) -> Response<Body> {
    let observed = Observed::start(&context.app, request.protocol).traced(request.headers);
    let mut model = None;
    match respond(context, verb, request, &observed, &mut model).await {
        Ok(response) => response,
        Err(error) => {
            let response = error::response(&context.app, &error);
            observed.failed(model.as_deref(), "", response.status().as_u16().into(), &error);
            response
        }
    }
}

async fn respond<B: Incoming>(
    context: &Context,
    verb: Verb,
    request: Inference<'_, B>,
    observed: &Observed<'_>,
    seen: &mut Option<Arc<Model>>,
) -> Result<Response<Body>> {
    let Inference { path, headers, mut body, .. } = request;
    let app = &context.app;
    let (mut guard, model) = admit(app, &mut body, seen, || verb.find(context, &path), |_| Ok(())).await?;
    let bytes = receive_whole(headers, body, &app.config.limits, guard.held()).await?;
    let PredictRequest { requests, form, timeout } = decode(context, &model, bytes).await?;
    guard.hold_at_least(requests.iter().map(|request| footprint::of_request(model.spec(), request)).sum())?;
    let deadline = observed.deadline(headers, timeout)?;
    let is_one = requests.len() == 1;
    let model = &model;
    let computed = requests.into_iter().enumerate().map(|(instance, request)| async move {
        let mut decoded = DecodedRequest { request, plan: ResponsePlan::default(), timeout: None, shared: None };
        if let Some(pattern) = &app.config.http_forward {
            header_params::forward(pattern, headers, &mut decoded)?;
        }
        observed.received(&mut decoded);
        let answer = compute(context, model, decoded, deadline, headers).await;
        let (_, response) = answer.map_err(|error| if is_one { error } else { blamed(instance, error) })?;
        Ok::<_, Error>(response)
    });
    let responses = try_join_all(computed).await?;
    observed.computed();
    let timings = responses.first().map(|response| response.timings).unwrap_or_default();
    let encoded = encode(context, model, form, verb.key(form), responses).await?;
    let mut answer = error::json(200, encoded);
    let held = HeldAnswer::of(app, answer.body().bytes())?;
    observed.served(model, "", 200, timings);
    if app.config.timing_headers {
        timing_headers(answer.headers_mut(), timings);
    }
    let answer = compress::answer(&app.config, headers, answer).await?;
    Ok(answer.map(|body| body.holding(held)))
}

/// An error of one instance among others says which, if it is the caller's.
fn blamed(instance: usize, error: Error) -> Error {
    match error.kind() {
        Kind::InvalidInput => Error::invalid(format!("instances[{instance}]: {}", error.message())),
        _ => error,
    }
}

/// Decodes a body; a large one on a thread of its own.
async fn decode(context: &Context, model: &Model, bytes: Bytes) -> Result<PredictRequest> {
    let (spec, limits) = (Arc::clone(model.spec()), wire_limits(&context.app.config.limits));
    offload::run(bytes.len(), move || v1::decode(&spec, &bytes, &limits)).await
}

/// Encodes the answers; many on a thread of its own.
async fn encode(
    context: &Context,
    model: &Model,
    form: Form,
    key: &'static str,
    responses: Vec<InferResponse>,
) -> Result<Vec<u8>> {
    let start = Instant::now();
    let options = EncodeOptions { strict_json: context.app.config.strict_json };
    let tensors = responses.iter().flat_map(|response| &response.outputs);
    // As text an element takes about twice its bytes.
    let json_bytes = tensors.map(|tensor| tensor.as_slice().len()).sum::<usize>() * 2;
    let spec = Arc::clone(model.spec());
    let encoded = offload::run(json_bytes, move || v1::encode(&spec, form, key, &responses, &options)).await?;
    model.metrics().encode.observe(start.elapsed().as_secs_f64());
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use super::Verb;

    fn parsed(path: &str) -> Option<(String, Option<String>, Verb)> {
        Verb::parse(path).map(|(path, verb)| (path.model.into_owned(), path.version.map(Into::into), verb))
    }

    #[test]
    fn the_verb_follows_the_last_segment() {
        for colon in [":", "%3A", "%3a"] {
            let path = format!("/v1/models/a%20b{colon}predict");
            assert_eq!(parsed(&path), Some(("a b".into(), None, Verb::Predict)));
            let path = format!("/v1/models/add/versions/2{colon}explain");
            assert_eq!(parsed(&path), Some(("add".into(), Some("2".into()), Verb::Explain)));
        }
    }

    #[test]
    fn every_other_path_is_left_alone() {
        for path in
            ["add", "add:", "add:train", ":predict", "add:predict/", "a/b:predict", "add/predict", "add:Predict"]
        {
            assert_eq!(parsed(&format!("/v1/models/{path}")), None, "{path}");
        }
        assert_eq!(parsed("/v2/models/add:predict"), None);
    }
}
