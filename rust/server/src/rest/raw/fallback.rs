//! Fallback of a raw-request model: another model answers what the first does not.

use super::route::decoded;
use crate::{
    infer::{RequestTelemetry, compute},
    state::{App, Context},
};
use http::{HeaderMap, StatusCode};
use memchr::memmem;
use penstock_core::{Error, Fallback, HttpRequest, InferResponse, Model, Protocol, ResponsePlan, Result};
use penstock_wire::DecodedRequest;
use std::sync::Arc;

/// Outcome of a model.
type Computed = Result<(ResponsePlan, InferResponse)>;

/// Surroundings of a request.
#[derive(Clone, Copy)]
pub(crate) struct RouteContext<'a> {
    pub(crate) context: &'a Context,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) telemetry: &'a RequestTelemetry<'a>,
    pub(crate) id: &'a str,
    pub(crate) protocol: Protocol,
}

/// A request that another model may answer.
pub(crate) struct FallbackRequest {
    first: Arc<Model>,
    http: HttpRequest,
}

impl FallbackRequest {
    /// Copies the request for another model; `None` for a model without a fallback.
    pub(crate) fn of(model: &Arc<Model>, http: &HttpRequest) -> Option<Self> {
        model.spec().fallback.as_ref().map(|_| Self { first: Arc::clone(model), http: http.clone() })
    }

    /// Computes the request by the model or its fallback, and returns which one answered. Without the fallback's model,
    /// the
    /// first outcome stands.
    pub(crate) async fn compute(
        self,
        route_context: RouteContext<'_>,
        decoded: DecodedRequest,
    ) -> (Arc<Model>, Computed) {
        let RouteContext { context, headers, telemetry, .. } = route_context;
        if let Some(other) = self.marked(&context.app) {
            let computed = self.compute_by(route_context, &other, None).await;
            return (other, computed);
        }
        let after = self.fallback().and_then(|fallback| fallback.timeout);
        let own = match telemetry.deadline(headers, after) {
            Ok(deadline) => compute(context, &self.first, decoded, deadline, headers).await,
            Err(error) => return (self.first, Err(error)),
        };
        let Some(other) = self.other(&context.app).filter(|_| is_wanted(&own)) else { return (self.first, own) };
        let computed = self.compute_by(route_context, &other, own.err()).await;
        (other, computed)
    }

    /// Computes the request by the fallback; `refused` is the error of the first model.
    async fn compute_by(mut self, route_context: RouteContext<'_>, other: &Model, refused: Option<Error>) -> Computed {
        let RouteContext { context, headers, telemetry, .. } = route_context;
        self.http.primary_error = refused;
        compute(context, other, decoded(route_context, self.http)?, telemetry.deadline(headers, None)?, headers).await
    }

    /// Returns the fallback for a request whose body has one of its marks.
    fn marked(&self, app: &App) -> Option<Arc<Model>> {
        let is_in_body = |mark: &[u8]| memmem::find(&self.http.body, mark).is_some();
        self.fallback()?.match_body.iter().any(|mark| is_in_body(mark)).then(|| self.other(app))?
    }

    fn other(&self, app: &App) -> Option<Arc<Model>> {
        app.registry.find(&self.fallback()?.model, None).ok()
    }

    fn fallback(&self) -> Option<&Fallback> {
        self.first.spec().fallback.as_ref()
    }
}

/// Reports whether an outcome leads to the fallback: an error, or status 421.
pub(crate) fn is_wanted(computed: &Computed) -> bool {
    match computed {
        Err(_) => true,
        Ok((_, response)) => response.head.as_ref().is_some_and(|head| head.status == StatusCode::MISDIRECTED_REQUEST),
    }
}
