//! Batching of models: `/debug/batching`, and a model's knobs while it serves.

use crate::{
    body::Body,
    rest::{error, handler::PathParams},
    settings::BatchingDebug,
    state::Context,
};
use http::Response;
use penstock_core::{Error, Kind, Result};
use penstock_wire::rest::batching as wire;

/// `GET /debug/batching`.
pub(crate) fn report(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    match context.app.config.batching_debug {
        BatchingDebug::Off => Err(off("/debug/batching is off")),
        BatchingDebug::Read | BatchingDebug::Change => Ok(error::json(200, wire::debug(&context.models().all()))),
    }
}

/// Refuses changes where the settings do not allow them.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn check_change_enabled(context: &Context) -> Result<()> {
    match context.app.config.batching_debug {
        BatchingDebug::Change => Ok(()),
        BatchingDebug::Off | BatchingDebug::Read => Err(off("changing how models batch is off")),
    }
}

/// `POST /v2/models/{model}[/versions/{version}]/batching`.
pub(crate) fn change(context: &Context, params: &PathParams, body: &[u8]) -> Result<Vec<u8>> {
    let knobs = wire::knobs(body)?;
    let model = context.models().find(params.model(), params.version())?;
    model.queue().tune(&knobs)?;
    Ok(wire::changed(&model))
}

fn off(what: &str) -> Error {
    Error::new(Kind::Unsupported, format!("{what}, as the server's setting 'batching_debug' has it"))
}
