//! A model's configuration, as Triton's clients read it: protobuf field names, numbers as numbers.

use penstock_core::{Datatype, ModelSpec, TensorSpec};
use serde_json::{Value, json};

/// The body of `GET /v2/models/{model}/config`.
///
/// The shapes are those of the metadata without the batch axis. `dynamic_batching` is there only when
/// requests are joined: clients take its presence for the signal.
pub fn model(spec: &ModelSpec) -> Vec<u8> {
    let input = |tensor: &TensorSpec| {
        json!({
            "name": &*tensor.name,
            "data_type": type_name(tensor.datatype),
            "format": "FORMAT_NONE",
            "dims": tensor.wire_shape(false),
            "is_shape_tensor": false,
            "allow_ragged_batch": false,
            "optional": tensor.optional,
        })
    };
    let output = |tensor: &TensorSpec| {
        json!({
            "name": &*tensor.name,
            "data_type": type_name(tensor.datatype),
            "dims": tensor.wire_shape(false),
            "label_filename": "",
            "is_shape_tensor": false,
        })
    };
    let mut config = json!({
        "name": &*spec.name,
        "platform": &*spec.platform,
        "backend": "python",
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": spec.max_batch_size(),
        "input": spec.inputs.iter().map(input).collect::<Vec<_>>(),
        "output": spec.outputs.iter().map(output).collect::<Vec<_>>(),
        "instance_group": [{"name": &*spec.name, "kind": "KIND_CPU", "count": spec.instances, "gpus": []}],
        "model_transaction_policy": {"decoupled": false},
        "parameters": {},
    });
    if let Some(batching) = spec.batching.as_ref().filter(|batching| batching.dynamic) {
        config["dynamic_batching"] = json!({
            "preferred_batch_size": batching.preferred_sizes,
            "max_queue_delay_microseconds": batching.max_delay_ns / 1000,
        });
    }
    Value::to_string(&config).into_bytes()
}

/// The configuration's name of a datatype, `TYPE_STRING` for BYTES.
fn type_name(datatype: Datatype) -> String {
    match datatype {
        Datatype::Bytes => "TYPE_STRING".to_owned(),
        other => format!("TYPE_{}", other.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::model;
    use crate::rest::test_spec;
    use serde_json::Value;

    #[test]
    fn agrees_with_what_perf_analyzer_reads() {
        let config: Value = serde_json::from_slice(&model(&test_spec::add())).unwrap();
        assert_eq!(config["max_batch_size"], 8);
        assert_eq!(config["input"][0]["data_type"], "TYPE_FP32");
        assert_eq!(config["input"][0]["dims"], serde_json::json!([4]));
        assert_eq!(config["model_transaction_policy"]["decoupled"], false);
        assert!(config["dynamic_batching"].is_object());
    }
}
