//! Models: their names, metadata, configuration and readiness.

use crate::{
    body::Body,
    rest::{error, handler::PathParams},
    state::{Context, Phase},
};
use http::Response;
use penstock_core::{Model, Result};
use penstock_wire::rest::{config as wire_config, metadata as wire};
use std::sync::Arc;

/// `GET /v2/models` and `/v1/models`.
pub(crate) fn list(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    let models = context.models().all();
    // An explainer has a colon in its name. It is listed under the model that it explains.
    let mut names: Vec<&str> =
        models.iter().map(|model| &*model.spec().name).filter(|name| !name.contains(':')).collect();
    names.dedup();
    Ok(error::json(200, wire::models(&names)))
}

/// `GET /v2/models/{model}[/versions/{version}]`.
pub(crate) fn metadata(context: &Context, params: &PathParams) -> Result<Response<Body>> {
    let model = find(context, params)?;
    let versions = match params.version() {
        Some(version) => vec![Arc::from(version)],
        None => context.app.registry.ready_versions(params.model()),
    };
    let versions: Vec<&str> = versions.iter().map(|version| &**version).collect();
    Ok(error::json(200, wire::model(model.spec(), &versions)))
}

/// `GET /v2/models/{model}[/versions/{version}]/config`.
pub(crate) fn config(context: &Context, params: &PathParams) -> Result<Response<Body>> {
    Ok(error::json(200, wire_config::model(find(context, params)?.spec())))
}

/// `GET /v2/models/{model}[/versions/{version}]/ready` and `/v1/models/{model}[/versions/{version}]`: 503 with the
/// reason for a model that takes no requests.
pub(crate) fn ready(context: &Context, params: &PathParams) -> Result<Response<Body>> {
    let reason = context.models().not_ready_reason(params.model(), params.version())?;
    let is_leaving = context.app.phase() >= Phase::Leaving;
    let reason = context.app.not_ready_reason().filter(|_| is_leaving).or(reason.as_deref());
    Ok(error::json(if reason.is_none() { 200 } else { 503 }, wire::model_ready(params.model(), reason)))
}

fn find(context: &Context, params: &PathParams) -> Result<Arc<Model>> {
    context.models().find(params.model(), params.version())
}
