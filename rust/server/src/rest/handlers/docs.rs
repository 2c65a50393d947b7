//! Documentation of the server: `/openapi.json`, and the page that reads it, `/docs`.
//!
//! The page is one file without external resources. Its policy lets it load nothing and connect to this server only.

use super::page::Page;
use crate::{
    body::Body,
    rest::{error, handler::PathParams, routes::ROUTES},
    settings::Config,
    state::Context,
};
use bytes::Bytes;
use http::Response;
use penstock_core::{Model, Registry, Result};
use penstock_wire::openapi::{self, RequestLimits, ServedModel, ServerDescription};
use std::sync::{Arc, LazyLock};

/// Style and scripts of the page; the scripts are joined in this order.
const STYLE: &str = include_str!("docs/page.css");
const SCRIPT: &str = concat!(
    include_str!("docs/request.js"),
    include_str!("docs/snippets.js"),
    include_str!("docs/parts.js"),
    include_str!("docs/fields.js"),
    include_str!("docs/answer.js"),
    include_str!("docs/attempt.js"),
    include_str!("docs/calls.js"),
    include_str!("docs/form.js"),
    include_str!("docs/numbers.js"),
    include_str!("docs/views.js"),
    include_str!("docs/side.js"),
    include_str!("docs/page.js"),
);

/// SHA-256 of the style and the script: a browser accepts no other. A house test compares them.
const STYLE_HASH: &str = "sha256-RfZ1WgQiTbKvTv/qwTMKoXQ3z9PjN4e7RUH9aRO7Ih0=";
const SCRIPT_HASH: &str = "sha256-hqmFtMXRakchWZjdW+oyQk0Xi7qPjcwNn3aPl9/ovos=";

/// `GET /openapi.json`.
pub(crate) fn document(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    Ok(describe(context, &context.models().all()))
}

/// `GET /v2/models/{model}/docs/dataplane.json`.
pub(crate) fn model_document(context: &Context, params: &PathParams) -> Result<Response<Body>> {
    let registry = &context.app.registry;
    let explainer = context.models().find(params.model(), None)?.spec().explainer_name();
    Ok(describe(context, &[registry.versions(params.model()), registry.versions(&explainer)].concat()))
}

/// `GET /docs`.
pub(crate) fn page(_: &Context, _: &PathParams) -> Result<Response<Body>> {
    static PAGE: LazyLock<Page> = LazyLock::new(|| Page {
        html: Bytes::from(include_str!("docs/page.html").replace("STYLE", STYLE).replace("SCRIPT", SCRIPT)),
        style: STYLE_HASH,
        script: SCRIPT_HASH,
    });
    Ok(PAGE.respond())
}

/// `GET /v2/models/{model}/docs`.
pub(crate) fn model_page(context: &Context, params: &PathParams) -> Result<Response<Body>> {
    context.models().find(params.model(), None)?;
    page(context, params)
}

fn describe(context: &Context, models: &[Arc<Model>]) -> Response<Body> {
    let Config { server_name, limits, dialect, strict_json, timing_headers, .. } = &context.app.config;
    let served: Vec<ServedModel<'_>> = models
        .iter()
        .map(|model| ServedModel { spec: model.spec(), is_default: is_default(&context.app.registry, model) })
        .collect();
    let routes: Vec<openapi::Route> = ROUTES
        .iter()
        .filter(|route| !route.hidden && !route.is_hidden(context.hidden))
        .map(|route| route.doc)
        .collect();
    let document = openapi::document(&ServerDescription {
        name: server_name,
        version: env!("CARGO_PKG_VERSION"),
        routes: &routes,
        models: &served,
        bounds: RequestLimits {
            body_bytes: limits.max_body_bytes.get(),
            header_bytes: limits.max_header_bytes,
            headers: limits.max_headers,
            uri_bytes: limits.uri_bytes,
            json_depth: limits.max_json_depth.get(),
        },
        dialect: *dialect,
        strict_json: *strict_json,
        timing_headers: *timing_headers,
    });
    error::json(200, document)
}

/// Reports whether a version answers requests without a version.
fn is_default(registry: &Registry, model: &Arc<Model>) -> bool {
    registry.find(&model.spec().name, None).is_ok_and(|found| Arc::ptr_eq(&found, model))
}
