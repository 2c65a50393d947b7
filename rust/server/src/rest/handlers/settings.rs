//! Settings that clients read and change while the server runs: of its log, and of tracing.

use crate::{
    body::Body,
    rest::{error, handler::PathParams},
    settings::LogLevel,
    state::Context,
};
use http::Response;
use penstock_core::Result;

/// `GET /v2/logging`.
pub(crate) fn log(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    Ok(error::json(200, context.app.log.settings().json()))
}

/// `POST /v2/logging`.
pub(crate) fn set_log(context: &Context, _: &PathParams, body: &[u8]) -> Result<Vec<u8>> {
    let log = &context.app.log;
    let settings = log.change(|settings| settings.changed_by_json(body))?;
    log.event(LogLevel::Info, "the log settings were changed");
    Ok(settings.json())
}

/// `GET /v2[/models/{model}]/trace/setting`.
pub(crate) fn trace(context: &Context, params: &PathParams) -> Result<Response<Body>> {
    Ok(error::json(200, set_trace(context, params, &[])?))
}

/// `POST /v2[/models/{model}]/trace/setting`.
pub(crate) fn set_trace(context: &Context, params: &PathParams, body: &[u8]) -> Result<Vec<u8>> {
    let app = &context.app;
    let model = params.get("model").map(|name| context.models().find(name, None)).transpose()?;
    let name = model.map(|model| model.spec().name.clone());
    let (settings, server) = app.trace.update(name, |settings| settings.changed_by_json(body))?;
    Ok(settings.json(&server))
}
