//! `grpc.health.v1.Health`, for Kubernetes' gRPC probes and load-balancing clients.

use super::respond::{FramedMessages, framed};
use crate::state::Context;
use futures_util::stream::{Stream, unfold};
use penstock_core::{Error, Kind, Result};
use penstock_wire::generated::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListResponse, health_check_response::ServingStatus,
};

/// Services by name; the empty one is the whole server.
const SERVICES: [&str; 2] = ["", "inference.GRPCInferenceService"];

/// Returns the health of the server, of the inference service, or of a model; `None` for an unknown name.
fn health(context: &Context, service: &str) -> Option<ServingStatus> {
    let up = context.app.unready_reason().is_none();
    let ready = if SERVICES.contains(&service) {
        up
    } else {
        context.models().not_ready_reason(service, None).ok()?.is_none() && up
    };
    Some(if ready { ServingStatus::Serving } else { ServingStatus::NotServing })
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

/// `Check`.
///
/// # Errors
/// `NotFound` for an unknown service or model.
pub(super) fn check(context: &Context, request: &HealthCheckRequest) -> Result<HealthCheckResponse> {
    let service = &request.service;
    let status = health(context, service);
    status.map(response).ok_or_else(|| Error::new(Kind::NotFound, format!("unknown service '{service}'")))
}

/// `Watch`: the health now and at each change. An unknown service has a status too, and stays watched. A slow
/// client gets the latest state only.
pub(super) fn watch(context: &Context, service: String) -> impl Stream<Item = Result<FramedMessages>> + use<> {
    let state = (context.clone(), service, context.app.changes.subscribe(), None);
    unfold(state, |(context, service, mut changes, sent)| async move {
        loop {
            changes.mark_unchanged();
            let status = health(&context, &service).unwrap_or(ServingStatus::ServiceUnknown);
            if sent != Some(status) {
                let message = framed(&response(status)).map(FramedMessages::from);
                return Some((message, (context, service, changes, Some(status))));
            }
            changes.changed().await.ok()?;
        }
    })
}

/// `List`.
pub(super) fn list(context: &Context) -> HealthListResponse {
    let models = context.models().all();
    let names = SERVICES.into_iter().chain(models.iter().map(|model| &*model.spec().name));
    let statuses = names.filter_map(|name| Some((name.to_owned(), response(health(context, name)?)))).collect();
    HealthListResponse { statuses }
}
