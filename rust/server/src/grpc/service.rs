//! The calls that tonic carries: all but an uncompressed `ModelInfer`.

use super::{infer::call, repository, settings, shared_memory, statistics, status::status, stream::Calls};
use crate::{
    app::Phase, config::Config, extensions, front::Context,
    generated::inference::grpc_inference_service_server::GrpcInferenceService, observed::Observed,
};
use http::HeaderMap;
use penstock_core::{Model, Protocol, Registry};
use penstock_wire::{
    generated::inference as pb,
    grpc::{Envelope, config, meta, response},
};
use std::{pin::Pin, sync::Arc};
use tonic::{Extensions, Request, Response, Status, codegen::tokio_stream::Stream, metadata::MetadataMap};

pub(super) type Answered<T> = Result<Response<T>, Status>;

/// The inference service of one I/O thread.
#[derive(Clone, Debug)]
pub(crate) struct Service(pub(crate) Context);

impl Service {
    fn find(&self, name: &str, version: &str) -> Result<Arc<Model>, Status> {
        let version = Some(version).filter(|version| !version.is_empty());
        self.0.app.registry.find_leniently(name, version).map_err(|error| status(&self.0.app, &error))
    }
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    type ModelStreamInferStream = Pin<Box<dyn Stream<Item = Result<pb::ModelStreamInferResponse, Status>> + Send>>;

    async fn server_live(&self, _: Request<pb::ServerLiveRequest>) -> Answered<pb::ServerLiveResponse> {
        Ok(Response::new(pb::ServerLiveResponse { live: true }))
    }

    async fn server_ready(&self, _: Request<pb::ServerReadyRequest>) -> Answered<pb::ServerReadyResponse> {
        Ok(Response::new(pb::ServerReadyResponse { ready: self.0.app.phase() == Phase::Ready }))
    }

    async fn model_ready(&self, request: Request<pb::ModelReadyRequest>) -> Answered<pb::ModelReadyResponse> {
        let request = request.into_inner();
        let version = Some(&*request.version).filter(|version| !version.is_empty());
        // Of a model that is not there Triton says so too, and its clients wait for it then.
        let found = self.0.app.registry.find_leniently(&request.name, version);
        let has_no_reason = matches!(Registry::reason(found), Ok(None));
        let ready = has_no_reason && self.0.app.phase() != Phase::Draining;
        Ok(Response::new(pb::ModelReadyResponse { ready }))
    }

    async fn server_metadata(&self, _: Request<pb::ServerMetadataRequest>) -> Answered<pb::ServerMetadataResponse> {
        let Config { server_name, server_version, .. } = &self.0.app.config;
        Ok(Response::new(meta::server(server_name, server_version, &extensions::served(&self.0))))
    }

    async fn model_metadata(&self, request: Request<pb::ModelMetadataRequest>) -> Answered<pb::ModelMetadataResponse> {
        let request = request.into_inner();
        let model = self.find(&request.name, &request.version)?;
        let versions = match request.version.is_empty() {
            false => vec![Arc::clone(&model.spec().version)],
            true => self.0.app.registry.ready_versions(&request.name),
        };
        let versions: Vec<&str> = versions.iter().map(|version| &**version).collect();
        Ok(Response::new(meta::model(model.spec(), &versions)))
    }

    async fn model_infer(&self, request: Request<pb::ModelInferRequest>) -> Answered<pb::ModelInferResponse> {
        let app = &self.0.app;
        let (metadata, _, message) = request.into_parts();
        let headers: HeaderMap = metadata.into_headers();
        let observed = Observed::start(app, Protocol::Grpc).traced(&headers);
        let answer = match app.enter_sequence() {
            Ok(guard) => call(&self.0, &observed, &headers, Envelope::from(message), guard).await,
            Err(error) => Err(error),
        };
        let message = answer.and_then(|answer| {
            let message = response(answer.model.spec(), &answer.plan, &answer.response)?;
            Ok(Response::from_parts(MetadataMap::from_headers(answer.metadata(app)?), message, Extensions::default()))
        });
        message.map_err(|error| status(app, &error))
    }

    async fn model_stream_infer(
        &self,
        request: Request<tonic::Streaming<pb::ModelInferRequest>>,
    ) -> Answered<Self::ModelStreamInferStream> {
        let (metadata, _, incoming) = request.into_parts();
        Ok(Response::new(Box::pin(Calls::new(&self.0, metadata.into_headers(), incoming))))
    }

    async fn model_config(&self, request: Request<pb::ModelConfigRequest>) -> Answered<pb::ModelConfigResponse> {
        let request = request.into_inner();
        let model = self.find(&request.name, &request.version)?;
        Ok(Response::new(pb::ModelConfigResponse { config: Some(config(model.spec())) }))
    }

    async fn model_statistics(
        &self,
        request: Request<pb::ModelStatisticsRequest>,
    ) -> Answered<pb::ModelStatisticsResponse> {
        statistics::answer(&self.0.app, &request.into_inner())
    }

    async fn repository_index(
        &self,
        request: Request<pb::RepositoryIndexRequest>,
    ) -> Answered<pb::RepositoryIndexResponse> {
        repository::index(&self.0, &request.into_inner())
    }

    async fn repository_model_load(
        &self,
        request: Request<pb::RepositoryModelLoadRequest>,
    ) -> Answered<pb::RepositoryModelLoadResponse> {
        repository::load(&self.0, request.into_inner()).await
    }

    async fn repository_model_unload(
        &self,
        request: Request<pb::RepositoryModelUnloadRequest>,
    ) -> Answered<pb::RepositoryModelUnloadResponse> {
        repository::unload(&self.0, request.into_inner()).await
    }

    async fn system_shared_memory_status(
        &self,
        request: Request<pb::SystemSharedMemoryStatusRequest>,
    ) -> Answered<pb::SystemSharedMemoryStatusResponse> {
        shared_memory::status(&self.0, request.get_ref())
    }

    async fn system_shared_memory_register(
        &self,
        request: Request<pb::SystemSharedMemoryRegisterRequest>,
    ) -> Answered<pb::SystemSharedMemoryRegisterResponse> {
        shared_memory::register(&self.0, request.into_inner())
    }

    async fn system_shared_memory_unregister(
        &self,
        request: Request<pb::SystemSharedMemoryUnregisterRequest>,
    ) -> Answered<pb::SystemSharedMemoryUnregisterResponse> {
        shared_memory::unregister(&self.0, request.get_ref())
    }

    async fn cuda_shared_memory_status(
        &self,
        request: Request<pb::CudaSharedMemoryStatusRequest>,
    ) -> Answered<pb::CudaSharedMemoryStatusResponse> {
        shared_memory::cuda_status(&self.0, request.get_ref())
    }

    async fn cuda_shared_memory_register(
        &self,
        _: Request<pb::CudaSharedMemoryRegisterRequest>,
    ) -> Answered<pb::CudaSharedMemoryRegisterResponse> {
        shared_memory::cuda_register(&self.0)
    }

    async fn cuda_shared_memory_unregister(
        &self,
        _: Request<pb::CudaSharedMemoryUnregisterRequest>,
    ) -> Answered<pb::CudaSharedMemoryUnregisterResponse> {
        shared_memory::cuda_unregister()
    }

    async fn trace_setting(&self, request: Request<pb::TraceSettingRequest>) -> Answered<pb::TraceSettingResponse> {
        settings::trace(&self.0.app, &request.into_inner())
    }

    async fn log_settings(&self, request: Request<pb::LogSettingsRequest>) -> Answered<pb::LogSettingsResponse> {
        settings::logging(&self.0.app, request.into_inner())
    }
}
