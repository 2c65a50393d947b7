//! Admin requests as gRPC messages, and their responses as REST's JSON.

use crate::{AdminOperation, AdminRequest};
use bytes::Bytes;
use penstock_core::{Error, Kind, Result};
use penstock_wire::generated::inference::{self as pb, model_repository_parameter::ParameterChoice as Choice};
use prost::Message;
use serde_json::{Value, json};

mod config;
mod statistics;

/// Returns the method and the message of a request.
pub(super) fn request(request: &AdminRequest) -> (&'static str, Vec<u8>) {
    let (name, version) = (request.model.clone(), request.version.clone());
    match &request.operation {
        AdminOperation::Live => ("ServerLive", Vec::new()),
        AdminOperation::Ready => ("ServerReady", Vec::new()),
        AdminOperation::ModelReady => ("ModelReady", pb::ModelReadyRequest { name, version }.encode_to_vec()),
        AdminOperation::ServerMetadata => ("ServerMetadata", Vec::new()),
        AdminOperation::Metadata => ("ModelMetadata", pb::ModelMetadataRequest { name, version }.encode_to_vec()),
        AdminOperation::Config => ("ModelConfig", pb::ModelConfigRequest { name, version }.encode_to_vec()),
        AdminOperation::Statistics => ("ModelStatistics", pb::ModelStatisticsRequest { name, version }.encode_to_vec()),
        AdminOperation::Index => ("RepositoryIndex", pb::RepositoryIndexRequest::default().encode_to_vec()),
        AdminOperation::Load(instead) => {
            let config = instead.config.iter().map(|text| parameter("config", Choice::StringParam(text.clone())));
            let files = instead.files.iter().map(|(name, file)| parameter(name, Choice::BytesParam(file.clone())));
            let message = pb::RepositoryModelLoadRequest {
                model_name: name,
                parameters: config.chain(files).collect(),
                ..Default::default()
            };
            ("RepositoryModelLoad", message.encode_to_vec())
        }
        AdminOperation::Unload { dependents } => {
            let parameter = parameter("unload_dependents", Choice::BoolParam(*dependents));
            let message = pb::RepositoryModelUnloadRequest {
                model_name: name,
                parameters: [parameter].into_iter().collect(),
                ..Default::default()
            };
            ("RepositoryModelUnload", message.encode_to_vec())
        }
    }
}

fn parameter(name: &str, choice: Choice) -> (String, pb::ModelRepositoryParameter) {
    (name.to_owned(), pb::ModelRepositoryParameter { parameter_choice: Some(choice) })
}

/// Converts a response message to JSON.
///
/// # Errors
/// `Internal` for a malformed message.
pub(super) fn answer(request: &AdminRequest, message: Bytes) -> Result<Vec<u8>> {
    let read = |message: Bytes| -> std::result::Result<Value, prost::DecodeError> {
        Ok(match request.operation {
            AdminOperation::Live => json!(pb::ServerLiveResponse::decode(message)?.live),
            AdminOperation::Ready => json!(pb::ServerReadyResponse::decode(message)?.ready),
            AdminOperation::ModelReady => json!(pb::ModelReadyResponse::decode(message)?.ready),
            AdminOperation::ServerMetadata => {
                let server = pb::ServerMetadataResponse::decode(message)?;
                json!({"name": server.name, "version": server.version, "extensions": server.extensions})
            }
            AdminOperation::Metadata => metadata(pb::ModelMetadataResponse::decode(message)?),
            AdminOperation::Config => {
                config::value(pb::ModelConfigResponse::decode(message)?.config.unwrap_or_default())
            }
            AdminOperation::Statistics => statistics::value(&pb::ModelStatisticsResponse::decode(message)?),
            AdminOperation::Index => index(pb::RepositoryIndexResponse::decode(message)?),
            AdminOperation::Load(_) | AdminOperation::Unload { .. } => json!({}),
        })
    };
    let value = read(message).map_err(|error| {
        Error::new(Kind::Internal, format!("the server's answer does not follow the protocol: {error}"))
    })?;
    Ok(value.to_string().into_bytes())
}

fn metadata(model: pb::ModelMetadataResponse) -> Value {
    let tensors = |tensors: Vec<pb::model_metadata_response::TensorMetadata>| -> Vec<Value> {
        let shown = |tensor: pb::model_metadata_response::TensorMetadata| json!({"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape});
        tensors.into_iter().map(shown).collect()
    };
    json!({
        "name": model.name,
        "versions": model.versions,
        "platform": model.platform,
        "inputs": tensors(model.inputs),
        "outputs": tensors(model.outputs),
    })
}

fn index(index: pb::RepositoryIndexResponse) -> Value {
    let models = index.models.into_iter().map(
        |model| json!({"name": model.name, "version": model.version, "state": model.state, "reason": model.reason}),
    );
    Value::Array(models.collect())
}
