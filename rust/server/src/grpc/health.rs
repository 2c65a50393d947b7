//! `grpc.health.v1.Health`: what Kubernetes' gRPC probes and balancing clients ask.

use crate::{
    app::{App, Phase},
    front::Context,
    generated::health::health_server::Health,
};
use penstock_wire::generated::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
    health_check_response::ServingStatus,
};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, codegen::tokio_stream::wrappers::ReceiverStream};

/// The services that clients may ask for by name; the empty one is the whole server.
const SERVICES: [&str; 2] = ["", "inference.GRPCInferenceService"];

#[derive(Clone, Debug)]
pub(crate) struct Service(pub(crate) Context);

/// The health of the server, of the inference service, or of a model by its name; `None` for what there is not.
fn health(app: &App, service: &str) -> Option<ServingStatus> {
    let up = app.phase() == Phase::Ready;
    let ready =
        if SERVICES.contains(&service) { up } else { app.registry.why_not_ready(service, None).ok()?.is_none() && up };
    Some(if ready { ServingStatus::Serving } else { ServingStatus::NotServing })
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for Service {
    type WatchStream = ReceiverStream<Result<HealthCheckResponse, Status>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        let status =
            health(&self.0.app, &service).ok_or_else(|| Status::not_found(format!("unknown service '{service}'")))?;
        Ok(Response::new(answer(status)))
    }

    /// Sends the health now and at each change. Of a service that there is not it says so, and goes on watching.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (service, app) = (request.into_inner().service, self.0.app.clone());
        // One at a time: a client that does not read gets the latest state when it does.
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let (mut changes, mut told) = (app.changes.subscribe(), None);
            loop {
                changes.mark_unchanged();
                let status = health(&app, &service).unwrap_or(ServingStatus::ServiceUnknown);
                if told.replace(status) != Some(status) && sender.send(Ok(answer(status))).await.is_err() {
                    return;
                }
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn list(&self, _: Request<HealthListRequest>) -> Result<Response<HealthListResponse>, Status> {
        let app = &self.0.app;
        let models = app.registry.all();
        let names = SERVICES.into_iter().chain(models.iter().map(|model| &*model.spec().name));
        let statuses = names.filter_map(|name| Some((name.to_owned(), answer(health(app, name)?)))).collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }
}
