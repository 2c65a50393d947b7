//! What the server says of itself: `/openapi.json`, and the page that reads it, `/docs`.
//!
//! The page is one file without a line from elsewhere, and its policy lets it load nothing and talk to
//! nobody but this server.

use crate::{
    rest::{
        error,
        router::{Named, answer, into_axum},
    },
    settings::Config,
    state::Context,
};
use axum::{
    Router,
    extract::{Path, State},
    response::{Html, IntoResponse as _, Response},
    routing::get,
};
use penstock_core::{Model, Registry};
use penstock_wire::openapi::{self, RequestLimits, ServedModel, ServerDescription};
use std::sync::{Arc, LazyLock};

/// Its parts, in the order in which they are joined.
const STYLE: &str = include_str!("docs/page.css");
const SCRIPT: &str = concat!(
    include_str!("docs/request.js"),
    include_str!("docs/snippets.js"),
    include_str!("docs/parts.js"),
    include_str!("docs/attempt.js"),
    include_str!("docs/page.js"),
);

/// SHA-256 of the style and the script: the only ones that a browser takes. A house test compares.
const STYLE_HASH: &str = "sha256-2wpy/rOnpk1YmK+DRsc+F3L2/nfMcV3MFTSiL+HXV30=";
const SCRIPT_HASH: &str = "sha256-s0kW+vwHrACCDRkeL+I50VOGFc5OgkQHHmfs0L7pVfg=";

/// The routes, unless they are switched off.
pub(crate) fn routes(config: &Config) -> Router<Context> {
    if !config.docs {
        return Router::new();
    }
    Router::new()
        .route("/openapi.json", get(document))
        .route("/docs", get(page))
        .route("/v2/docs", get(page))
        .route("/v2/docs/dataplane.json", get(document))
        .route("/v2/models/{model}/docs", get(model_page))
        .route("/v2/models/{model}/docs/dataplane.json", get(model_document))
}

async fn document(State(context): State<Context>) -> Response {
    let registry = &context.app.registry;
    described(&context, &registry.all())
}

async fn model_document(State(context): State<Context>, Path(named): Path<Named>) -> Response {
    let registry = &context.app.registry;
    match registry.find(&named.model, None) {
        Ok(found) => {
            let explainers = registry.versions(&found.spec().explainer());
            described(&context, &[registry.versions(&named.model), explainers].concat())
        }
        Err(error) => answer(&context, Err(error)),
    }
}

async fn page() -> Response {
    static PAGE: LazyLock<String> =
        LazyLock::new(|| include_str!("docs/page.html").replace("STYLE", STYLE).replace("SCRIPT", SCRIPT));
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        format!(
            "default-src 'none'; style-src '{STYLE_HASH}'; script-src '{SCRIPT_HASH}'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    });
    let headers = [
        ("content-security-policy", POLICY.as_str()),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        // A server of another version may answer here tomorrow.
        ("cache-control", "no-cache"),
    ];
    (headers, Html(PAGE.as_str())).into_response()
}

async fn model_page(State(context): State<Context>, Path(named): Path<Named>) -> Response {
    match context.app.registry.find(&named.model, None) {
        Ok(_) => page().await,
        Err(error) => into_axum(error::response(&context.app, &error)),
    }
}

fn described(context: &Context, models: &[Arc<Model>]) -> Response {
    let Config { server_name, limits, overload_unavailable, strict_json, timing_headers, .. } = &context.app.config;
    let served: Vec<ServedModel<'_>> = models
        .iter()
        .map(|model| ServedModel { spec: model.spec(), is_default: is_default(&context.app.registry, model) })
        .collect();
    let document = openapi::document(&ServerDescription {
        name: server_name,
        version: env!("CARGO_PKG_VERSION"),
        models: &served,
        bounds: RequestLimits {
            body_bytes: limits.body_bytes,
            header_bytes: limits.header_bytes,
            headers: limits.headers,
            uri_bytes: limits.uri_bytes,
            json_depth: limits.json_depth,
        },
        overload_unavailable: *overload_unavailable,
        strict_json: *strict_json,
        timing_headers: *timing_headers,
    });
    into_axum(error::json(200, document))
}

/// Whether a version answers requests that name none.
fn is_default(registry: &Registry, model: &Arc<Model>) -> bool {
    registry.find(&model.spec().name, None).is_ok_and(|found| Arc::ptr_eq(&found, model))
}
