//! Statistics of models.

use crate::{
    body::Body,
    rest::{error, handler::PathParams},
    state::Context,
};
use http::Response;
use penstock_core::Result;
use penstock_wire::rest::statistics;

/// `GET /v2/models/stats`.
pub(crate) fn of_all(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    Ok(error::json(200, statistics(&context.models().all())))
}

/// `GET /v2/models/{model}[/versions/{version}]/stats`.
pub(crate) fn of_model(context: &Context, params: &PathParams) -> Result<Response<Body>> {
    Ok(error::json(200, statistics(&context.models().select(params.model(), params.version())?)))
}
