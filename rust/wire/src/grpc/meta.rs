//! What a server and its models say of themselves.

use crate::generated::inference::{
    self as pb, model_config::SchedulingChoice, model_metadata_response::TensorMetadata,
};
use penstock_core::{Batching, Datatype, ModelSpec, TensorSpec};

/// The server's metadata.
pub fn server(name: &str, version: &str, extensions: &[&str]) -> pb::ServerMetadataResponse {
    pb::ServerMetadataResponse {
        name: name.to_owned(),
        version: version.to_owned(),
        extensions: extensions.iter().map(|&extension| extension.to_owned()).collect(),
    }
}

/// A model's metadata. `versions` are those that answer: all of them where the caller named none,
/// else the one it named.
pub fn model(spec: &ModelSpec, versions: &[&str]) -> pb::ModelMetadataResponse {
    let batched = spec.batching.is_some();
    pb::ModelMetadataResponse {
        name: spec.name.to_string(),
        versions: versions.iter().map(|&version| version.to_owned()).collect(),
        platform: spec.platform.to_string(),
        inputs: spec.inputs.iter().map(|input| tensor(input, batched)).collect(),
        outputs: spec.outputs.iter().map(|output| tensor(output, batched)).collect(),
    }
}

/// A model's configuration: the same inputs and outputs as its metadata, without the batch axis.
pub fn config(spec: &ModelSpec) -> pb::ModelConfig {
    let input = |tensor: &TensorSpec| pb::ModelInput {
        name: tensor.name.to_string(),
        data_type: data_type(tensor.datatype).into(),
        dims: tensor.wire_shape(false),
        optional: tensor.optional,
        ..pb::ModelInput::default()
    };
    let output = |tensor: &TensorSpec| pb::ModelOutput {
        name: tensor.name.to_string(),
        data_type: data_type(tensor.datatype).into(),
        dims: tensor.wire_shape(false),
        ..pb::ModelOutput::default()
    };
    let instances = pb::ModelInstanceGroup {
        name: spec.name.to_string(),
        count: clamped(spec.instances),
        kind: pb::model_instance_group::Kind::Cpu.into(),
        ..pb::ModelInstanceGroup::default()
    };
    pb::ModelConfig {
        name: spec.name.to_string(),
        platform: spec.platform.to_string(),
        max_batch_size: clamped(spec.max_batch_size()),
        input: spec.inputs.iter().map(input).collect(),
        output: spec.outputs.iter().map(output).collect(),
        instance_group: vec![instances],
        scheduling_choice: spec.batching.as_ref().filter(|batching| batching.dynamic).map(dynamic),
        ..pb::ModelConfig::default()
    }
}

fn tensor(spec: &TensorSpec, batched: bool) -> TensorMetadata {
    TensorMetadata {
        name: spec.name.to_string(),
        datatype: spec.datatype.name().to_owned(),
        shape: spec.wire_shape(batched),
    }
}

fn dynamic(batching: &Batching) -> SchedulingChoice {
    SchedulingChoice::DynamicBatching(pb::ModelDynamicBatching {
        preferred_batch_size: batching.preferred_sizes.iter().map(|&size| clamped(size)).collect(),
        max_queue_delay_microseconds: batching.max_delay_ns / 1000,
        preserve_ordering: false,
        ..pb::ModelDynamicBatching::default()
    })
}

fn data_type(datatype: Datatype) -> pb::DataType {
    match datatype {
        Datatype::Bool => pb::DataType::TypeBool,
        Datatype::Uint8 => pb::DataType::TypeUint8,
        Datatype::Uint16 => pb::DataType::TypeUint16,
        Datatype::Uint32 => pb::DataType::TypeUint32,
        Datatype::Uint64 => pb::DataType::TypeUint64,
        Datatype::Int8 => pb::DataType::TypeInt8,
        Datatype::Int16 => pb::DataType::TypeInt16,
        Datatype::Int32 => pb::DataType::TypeInt32,
        Datatype::Int64 => pb::DataType::TypeInt64,
        Datatype::Fp16 => pb::DataType::TypeFp16,
        Datatype::Bf16 => pb::DataType::TypeBf16,
        Datatype::Fp32 => pb::DataType::TypeFp32,
        Datatype::Fp64 => pb::DataType::TypeFp64,
        Datatype::Bytes => pb::DataType::TypeString,
    }
}

fn clamped(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::testing::{input, spec};
    use penstock_core::Oversize;

    fn batched() -> ModelSpec {
        let mut spec = spec(vec![input("x", Datatype::Fp32, &[-1, 16]), input("t", Datatype::Bytes, &[])]);
        spec.inputs[1].optional = true;
        spec.batching = Some(Batching {
            max_size: 8,
            dynamic: true,
            max_delay_ns: 3_000_000,
            preferred_sizes: vec![4, 8],
            hold: true,
            oversize: Oversize::Refuse,
        });
        spec
    }

    #[test]
    fn the_server_says_its_name() {
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
    }

    #[test]
    fn the_configuration_agrees_with_the_metadata() {
        let spec = batched();
        let (config, metadata) = (config(&spec), model(&spec, &["1"]));
        assert_eq!(config.max_batch_size, 8);
        for (configured, shown) in config.input.iter().zip(&metadata.inputs) {
            assert_eq!(configured.name, shown.name);
            assert_eq!(configured.dims, shown.shape[1..]);
        }
        assert_eq!(config.input[1].data_type(), pb::DataType::TypeString);
        assert!(config.input[1].optional && !config.input[0].optional);
        assert_eq!(config.output.len(), metadata.outputs.len());
        let Some(SchedulingChoice::DynamicBatching(dynamic)) = config.scheduling_choice else {
            panic!("a dynamic model is configured as one");
        };
        assert_eq!(dynamic.max_queue_delay_microseconds, 3000);
        assert_eq!(dynamic.preferred_batch_size, [4, 8]);
    }

    #[test]
    fn without_dynamic_batching_there_is_no_scheduler() {
        let mut spec = batched();
        spec.batching.as_mut().unwrap().dynamic = false;
        assert_eq!(config(&spec).scheduling_choice, None);
        spec.batching = None;
        assert_eq!(config(&spec).max_batch_size, 0);
    }

    #[test]
    fn every_datatype_has_its_own_configured_type() {
        let types: std::collections::BTreeSet<i32> = Datatype::ALL.map(|datatype| data_type(datatype).into()).into();
        assert_eq!(types, (1..=14).collect());
        for datatype in Datatype::ALL {
            let name = data_type(datatype).as_str_name();
            let expected = if datatype == Datatype::Bytes { "TYPE_STRING".into() } else { format!("TYPE_{datatype}") };
            assert_eq!(name, expected);
        }
    }
}
