//! Metadata of a server and its models.

use crate::generated::{inference as pb, inference::model_metadata_response::TensorMetadata};
use penstock_core::{ModelSpec, TensorSpec};

/// The server's metadata.
pub fn server(name: &str, version: &str, extensions: &[&str]) -> pb::ServerMetadataResponse {
    pb::ServerMetadataResponse {
        name: name.to_owned(),
        version: version.to_owned(),
        extensions: extensions.iter().map(|&extension| extension.to_owned()).collect(),
    }
}

/// A model's metadata. `versions` are all versions, or the one that the request named.
pub fn model(spec: &ModelSpec, versions: &[&str]) -> pb::ModelMetadataResponse {
    let batched = spec.has_batch_axis();
    pb::ModelMetadataResponse {
        name: spec.name.to_string(),
        versions: versions.iter().map(|&version| version.to_owned()).collect(),
        platform: spec.platform.to_string(),
        inputs: spec.inputs.iter().map(|input| tensor(input, batched)).collect(),
        outputs: spec.outputs.iter().map(|output| tensor(output, batched)).collect(),
    }
}

fn tensor(spec: &TensorSpec, batched: bool) -> TensorMetadata {
    TensorMetadata {
        name: spec.name.to_string(),
        datatype: spec.datatype.name().to_owned(),
        shape: spec.wire_shape(batched),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::testing::{input, spec};
    use penstock_core::{Batching, Datatype};

    fn batched() -> ModelSpec {
        let spec = spec(vec![input("x", Datatype::Fp32, &[-1, 16]), input("t", Datatype::Bytes, &[])]);
        ModelSpec { batching: Some(Batching::new(8)), ..spec }
    }

    #[test]
    fn server_metadata_has_name_version_and_extensions() {
        let metadata = server("penstock", "1.2", &["binary_tensor_data"]);
        assert_eq!((metadata.name.as_str(), metadata.version.as_str()), ("penstock", "1.2"));
        assert_eq!(metadata.extensions, ["binary_tensor_data"]);
    }

    #[test]
    fn metadata_shapes_have_the_batch_axis() {
        let metadata = model(&batched(), &["1", "2"]);
        assert_eq!(metadata.versions, ["1", "2"]);
        let shown: Vec<_> =
            metadata.inputs.iter().map(|t| (t.name.as_str(), t.datatype.as_str(), &t.shape[..])).collect();
        assert_eq!(shown, [("x", "FP32", &[-1, -1, 16][..]), ("t", "BYTES", &[-1])]);
        let alone = model(&ModelSpec { batching: None, ..batched() }, &["1"]);
        assert_eq!(alone.inputs[0].shape, [-1, 16]);
        // Calls of an open model are shared by requests: no axis of theirs is.
        let raw_model = model(&ModelSpec { raw_requests: true, ..batched() }, &["1"]);
        assert_eq!(raw_model.inputs[0].shape, [-1, 16]);
    }
}
