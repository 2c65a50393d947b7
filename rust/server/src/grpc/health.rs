//! `grpc.health.v1.Health`: what Kubernetes' gRPC probes ask.

use crate::{app::Phase, front::Context, generated::health::health_server::Health};
use penstock_core::Readiness;
use penstock_wire::generated::health::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus};
use std::pin::Pin;
use tonic::{Request, Response, Status, codegen::tokio_stream::Stream};

/// The name of the inference service, which clients may ask for.
const INFERENCE: &str = "inference.GRPCInferenceService";

#[derive(Clone, Debug)]
pub(crate) struct Service(pub(crate) Context);

impl Service {
    /// The health of the server, of the inference service, or of a model by its name.
    fn serving(&self, service: &str) -> Option<ServingStatus> {
        let app = &self.0.app;
        let up = app.phase() == Phase::Ready;
        let ready = match service {
            "" | INFERENCE => up,
            model => {
                let versions = app.registry.versions(model);
                if versions.is_empty() {
                    return None;
                }
                up && versions.iter().any(|model| model.readiness() == Readiness::Ready)
            }
        };
        Some(if ready { ServingStatus::Serving } else { ServingStatus::NotServing })
    }
}

#[tonic::async_trait]
impl Health for Service {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        let status = self.serving(&service).ok_or_else(|| Status::not_found(format!("unknown service '{service}'")))?;
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("Watch is not supported, use Check"))
    }
}
