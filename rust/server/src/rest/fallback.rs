//! Requests to a model's own paths that another model answers, because the first does not.

use super::routed::decoded;
use crate::{compute::compute, front::Context};
use http::{HeaderMap, StatusCode};
use penstock_core::{AnswerPlan, Fallback, HttpRequest, InferResponse, Model, Protocol, Result};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// What a model's computing ends with.
type Computed = Result<(AnswerPlan, InferResponse)>;

/// A request that may fall to another model.
pub(super) struct Fallen {
    /// The first model, whose outcome counts if there is no other.
    first: Arc<Model>,
    http: HttpRequest,
}

impl Fallen {
    /// Keeps what another model would have to know; `None` for a model without a fallback.
    pub(super) fn may_be(model: &Arc<Model>, http: &HttpRequest) -> Option<Self> {
        model.spec().fallback.as_ref().map(|_| Self { first: Arc::clone(model), http: http.clone() })
    }

    fn fallback(&self) -> Option<&Fallback> {
        self.first.spec().fallback.as_ref()
    }

    /// How long the first model has, from when the request arrived.
    pub(super) fn after(&self) -> Option<Duration> {
        self.fallback()?.after
    }

    /// Has the other model answer, and says which did. If it is not there, what the first said stands.
    pub(super) async fn answer(
        mut self,
        context: &Context,
        headers: &HeaderMap,
        deadline: Option<Instant>,
        (id, protocol): (&str, Protocol),
        computed: Computed,
    ) -> (Arc<Model>, Computed) {
        let other = self.fallback().and_then(|fallback| context.app.registry.find(&fallback.model, None).ok());
        let Some(other) = other else { return (self.first, computed) };
        self.http.refused = computed.err();
        let mut decoded = decoded(self.http, id, protocol);
        if let Some(pattern) = &context.app.config.http_forward
            && let Err(error) = pattern.forward(headers, &mut decoded)
        {
            return (other, Err(error));
        }
        let answered = compute(context, &other, decoded, deadline, headers).await;
        (other, answered)
    }
}

/// Whether an outcome falls to the other model: an error, or an answer that the request was misdirected.
pub(super) fn is_wanted(computed: &Computed) -> bool {
    match computed {
        Err(_) => true,
        Ok((_, response)) => response.told.as_ref().is_some_and(|told| told.status == StatusCode::MISDIRECTED_REQUEST),
    }
}
