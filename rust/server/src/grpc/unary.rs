//! Calls of one message and one response, except `ModelInfer`.

use super::{frames::Frames, handlers, health, respond, shared_memory};
use crate::{
    body::{Body, RequestBody, offload},
    settings::Config,
    state::{Context, Phase, RequestMemory},
};
use http::{HeaderMap, Response};
use penstock_core::{BodyChunks, Error, Model, Registry, Result};
use penstock_wire::{
    generated::{health as health_pb, inference as pb},
    grpc::{check_fields, config, metadata},
};
use prost::Message;
use std::{
    future::{Future, ready},
    sync::Arc,
};

/// Longest message of a call with names and settings only, in bytes. It is decoded on the I/O thread.
const SMALL_MESSAGE_BYTES: usize = offload::MIN_BYTES;

/// A call with an unread message.
pub(super) struct Call<'a, B> {
    pub(super) context: &'a Context,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: B,
}

impl<B: RequestBody> Call<'_, B> {
    /// Reads the message, of at most `most` bytes, with its reserved memory.
    ///
    /// # Errors
    /// `InvalidInput` for a message that is not a `Q`; those of [`Frames::message`].
    async fn read<Q: Message + Default + 'static>(self, most: usize) -> Result<(Q, RequestMemory)> {
        let mut held = RequestMemory::none(&self.context.app);
        let mut frames = Frames::new(self.body, self.headers, &self.context.app.config.limits)?;
        let message =
            frames.message(most, &mut held).await?.ok_or_else(|| Error::invalid("the call carries no message"))?;
        frames.end().await?;
        let decode = move || {
            check_fields(&message)?;
            Q::decode(message).map_err(|error| Error::invalid(format!("the message cannot be decoded: {error}")))
        };
        Ok((offload::run(held.bytes(), decode).await?, held))
    }

    async fn respond<Q: Message + Default + 'static, A: Message>(
        self,
        handler: impl FnOnce(Q) -> Result<A>,
    ) -> Result<Response<Body>> {
        self.respond_async(SMALL_MESSAGE_BYTES, |message| ready(handler(message))).await
    }

    async fn respond_async<Q: Message + Default + 'static, A: Message, F: Future<Output = Result<A>>>(
        self,
        most: usize,
        handler: impl FnOnce(Q) -> F,
    ) -> Result<Response<Body>> {
        let coding = respond::response_coding(self.context, self.headers);
        let (message, _held) = self.read(most).await?;
        let response = handler(message).await?;
        respond::unary(coding, BodyChunks::from_iter([respond::framed(&response)?]), HeaderMap::with_capacity(3)).await
    }
}

/// Answers the call of a name; `None` if there is no such call.
pub(super) async fn call<B: RequestBody>(name: &str, call: Call<'_, B>) -> Option<Result<Response<Body>>> {
    let context = call.context;
    let app = &context.app;
    Some(match name {
        "ServerLive" => {
            let live = app.liveness.stalled().is_none();
            call.respond(|_: pb::ServerLiveRequest| Ok(pb::ServerLiveResponse { live })).await
        }
        "ServerReady" => {
            let ready = app.unready_reason().is_none();
            call.respond(|_: pb::ServerReadyRequest| Ok(pb::ServerReadyResponse { ready })).await
        }
        "ModelReady" => call.respond(|message| Ok(model_ready(context, &message))).await,
        "ServerMetadata" => {
            let Config { server_name, server_version, .. } = &app.config;
            let metadata =
                |_: pb::ServerMetadataRequest| Ok(metadata::server(server_name, server_version, &context.extensions()));
            call.respond(metadata).await
        }
        "ModelMetadata" => call.respond(|message| model_metadata(context, &message)).await,
        "ModelConfig" => {
            let shown = |message: pb::ModelConfigRequest| {
                let model = find(context, &message.name, &message.version)?;
                Ok(pb::ModelConfigResponse { config: Some(config(model.spec())) })
            };
            call.respond(shown).await
        }
        "ModelStatistics" => call.respond(|message| handlers::statistics(context, &message)).await,
        "RepositoryIndex" => call.respond(|message| handlers::repository_index(context, &message)).await,
        // It may hold a model's files.
        "RepositoryModelLoad" => {
            call.respond_async(app.config.limits.max_body_bytes.get(), |message| {
                handlers::repository_load(context, message)
            })
            .await
        }
        "RepositoryModelUnload" => {
            call.respond_async(SMALL_MESSAGE_BYTES, |message| handlers::repository_unload(context, message)).await
        }
        "SystemSharedMemoryStatus" => call.respond(|message| shared_memory::status(context, &message)).await,
        "SystemSharedMemoryRegister" => call.respond(|message| shared_memory::register(context, message)).await,
        "SystemSharedMemoryUnregister" => call.respond(|message| shared_memory::unregister(context, &message)).await,
        "CudaSharedMemoryStatus" => call.respond(|message| shared_memory::cuda_status(&message)).await,
        "CudaSharedMemoryRegister" => {
            call.respond(|_: pb::CudaSharedMemoryRegisterRequest| shared_memory::cuda_register()).await
        }
        "CudaSharedMemoryUnregister" => {
            call.respond(|_: pb::CudaSharedMemoryUnregisterRequest| shared_memory::cuda_unregister()).await
        }
        "TraceSetting" => {
            call.respond_async(SMALL_MESSAGE_BYTES, |message| handlers::trace_setting(context, message)).await
        }
        "LogSettings" => {
            call.respond_async(SMALL_MESSAGE_BYTES, |message| handlers::log_settings(context, message)).await
        }
        _ => return None,
    })
}

/// Answers the call of a name of the health service.
pub(super) async fn health<B: RequestBody>(name: &str, call: Call<'_, B>) -> Option<Result<Response<Body>>> {
    let (context, coding) = (call.context, respond::response_coding(call.context, call.headers));
    Some(match name {
        "Check" => call.respond(|message| health::check(context, &message)).await,
        "List" => call.respond(|_: health_pb::HealthListRequest| Ok(health::list(context))).await,
        "Watch" => call.read(SMALL_MESSAGE_BYTES).await.map(|(message, _): (health_pb::HealthCheckRequest, _)| {
            respond::stream(&context.app, coding, health::watch(context, message.service))
        }),
        _ => return None,
    })
}

fn find(context: &Context, name: &str, version: &str) -> Result<Arc<Model>> {
    context.models().find_permissively(name, Some(version).filter(|version| !version.is_empty()))
}

fn model_ready(context: &Context, message: &pb::ModelReadyRequest) -> pb::ModelReadyResponse {
    // Triton reports an unknown model as not ready too, and its clients wait for it.
    let found = find(context, &message.name, &message.version);
    let has_no_reason = matches!(Registry::reason(found), Ok(None));
    pb::ModelReadyResponse { ready: has_no_reason && context.app.phase() < Phase::Leaving }
}

fn model_metadata(context: &Context, message: &pb::ModelMetadataRequest) -> Result<pb::ModelMetadataResponse> {
    let model = find(context, &message.name, &message.version)?;
    let versions = match message.version.is_empty() {
        false => vec![Arc::clone(&model.spec().version)],
        true => context.app.registry.ready_versions(&message.name),
    };
    let versions: Vec<&str> = versions.iter().map(|version| &**version).collect();
    Ok(metadata::model(model.spec(), &versions))
}
