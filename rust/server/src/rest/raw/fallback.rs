//! Requests to a model's own paths that another model answers, because the first does not.

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

/// What a model's computing ends with.
type Computed = Result<(ResponsePlan, InferResponse)>;

/// A request, and where it came.
#[derive(Clone, Copy)]
pub(crate) struct RouteContext<'a> {
    pub(crate) context: &'a Context,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) telemetry: &'a RequestTelemetry<'a>,
    pub(crate) id: &'a str,
    pub(crate) protocol: Protocol,
}

/// A request that may fall to another model.
pub(crate) struct FallbackRequest {
    first: Arc<Model>,
    http: HttpRequest,
}

impl FallbackRequest {
    /// Keeps what another model would have to know; `None` for a model without a fallback.
    pub(crate) fn of(model: &Arc<Model>, http: &HttpRequest) -> Option<Self> {
        model.spec().fallback.as_ref().map(|_| Self { first: Arc::clone(model), http: http.clone() })
    }

    /// As [`compute`], by whichever of the two is to answer; says which did. If the other is not there, what the first
    /// says stands.
    pub(crate) async fn compute(
        self,
        route_context: RouteContext<'_>,
        decoded: DecodedRequest,
    ) -> (Arc<Model>, Computed) {
        let RouteContext { context, headers, telemetry, .. } = route_context;
        if let Some(other) = self.marked(&context.app) {
            let computed = self.answer(route_context, &other, None).await;
            return (other, computed);
        }
        let after = self.fallback().and_then(|fallback| fallback.timeout);
        let own = match telemetry.deadline(headers, after) {
            Ok(deadline) => compute(context, &self.first, decoded, deadline, headers).await,
            Err(error) => return (self.first, Err(error)),
        };
        let Some(other) = self.other(&context.app).filter(|_| is_wanted(&own)) else { return (self.first, own) };
        let computed = self.answer(route_context, &other, own.err()).await;
        (other, computed)
    }

    /// Has the other model answer; `refused` is why the first has not.
    async fn answer(mut self, route_context: RouteContext<'_>, other: &Model, refused: Option<Error>) -> Computed {
        let RouteContext { context, headers, telemetry, .. } = route_context;
        self.http.primary_error = refused;
        compute(context, other, decoded(route_context, self.http)?, telemetry.deadline(headers, None)?, headers).await
    }

    /// The other model, for a request whose body is marked as its.
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

/// Whether an outcome falls to the other model: an error, or an answer that the request was misdirected.
pub(crate) fn is_wanted(computed: &Computed) -> bool {
    match computed {
        Err(_) => true,
        Ok((_, response)) => response.head.as_ref().is_some_and(|told| told.status == StatusCode::MISDIRECTED_REQUEST),
    }
}
