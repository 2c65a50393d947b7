//! A model's configuration: gRPC's message as JSON, with its field names, every number a number, and
//! defaults written out.

use crate::{
    generated::inference::{
        ModelConfig, ModelDynamicBatching, ModelInput, ModelInstanceGroup, ModelOutput, ModelQueuePolicy,
        ModelTensorReshape, ModelVersionPolicy, model_config::SchedulingChoice, model_rate_limiter::Resource,
        model_version_policy::PolicyChoice,
    },
    grpc,
};
use penstock_core::{ModelSpec, VersionPolicy};
use serde_json::{Map, Value, json};

/// The body of `GET /v2/models/{model}/config`.
pub fn model(spec: &ModelSpec) -> Vec<u8> {
    let mut document = document(&grpc::config(spec));
    // By name, where gRPC has numbers only.
    if let VersionPolicy::Specific(versions) = &spec.version_policy
        && document["version_policy"] == json!({})
    {
        document["version_policy"] = json!({"specific": {"versions": versions}});
    }
    document.to_string().into_bytes()
}

fn document(config: &ModelConfig) -> Value {
    let parameters: Map<_, _> = config
        .parameters
        .iter()
        .map(|(name, value)| (name.clone(), json!({"string_value": value.string_value})))
        .collect();
    let mut document = json!({
        "name": config.name,
        "platform": config.platform,
        "backend": config.backend,
        "runtime": config.runtime,
        "version_policy": config.version_policy.as_ref().map_or(json!({}), version_policy),
        "max_batch_size": config.max_batch_size,
        "input": config.input.iter().map(input).collect::<Vec<_>>(),
        "output": config.output.iter().map(output).collect::<Vec<_>>(),
        "instance_group": config.instance_group.iter().map(instance_group).collect::<Vec<_>>(),
        "default_model_filename": config.default_model_filename,
        "cc_model_filenames": config.cc_model_filenames,
        "metric_tags": config.metric_tags,
        "parameters": parameters,
    });
    // Absent messages are left out: clients check their presence.
    if let Some(policy) = &config.model_transaction_policy {
        document["model_transaction_policy"] = json!({"decoupled": policy.decoupled});
    }
    if let Some(cache) = &config.response_cache {
        document["response_cache"] = json!({"enable": cache.enable});
    }
    match &config.scheduling_choice {
        Some(SchedulingChoice::DynamicBatching(batching)) => document["dynamic_batching"] = dynamic_batching(batching),
        Some(SchedulingChoice::SequenceBatching(batching)) => {
            document["sequence_batching"] = json!({
                "max_sequence_idle_microseconds": batching.max_sequence_idle_microseconds,
                "iterative_sequence": batching.iterative_sequence,
            });
        }
        // Penstock composes no models.
        Some(SchedulingChoice::EnsembleScheduling(_)) | None => {}
    }
    document
}

fn version_policy(policy: &ModelVersionPolicy) -> Value {
    match &policy.policy_choice {
        None => json!({}),
        Some(PolicyChoice::Latest(latest)) => json!({"latest": {"num_versions": latest.num_versions}}),
        Some(PolicyChoice::All(_)) => json!({"all": {}}),
        Some(PolicyChoice::Specific(specific)) => json!({"specific": {"versions": specific.versions}}),
    }
}

fn input(input: &ModelInput) -> Value {
    let mut document = json!({
        "name": input.name,
        "data_type": input.data_type().as_str_name(),
        "format": input.format().as_str_name(),
        "dims": input.dims,
        "is_shape_tensor": input.is_shape_tensor,
        "allow_ragged_batch": input.allow_ragged_batch,
        "optional": input.optional,
        "is_non_linear_format_io": input.is_non_linear_format_io,
    });
    add_reshape(&mut document, input.reshape.as_ref());
    document
}

fn output(output: &ModelOutput) -> Value {
    let mut document = json!({
        "name": output.name,
        "data_type": output.data_type().as_str_name(),
        "dims": output.dims,
        "label_filename": output.label_filename,
        "is_shape_tensor": output.is_shape_tensor,
        "is_non_linear_format_io": output.is_non_linear_format_io,
    });
    add_reshape(&mut document, output.reshape.as_ref());
    document
}

fn add_reshape(document: &mut Value, reshape: Option<&ModelTensorReshape>) {
    if let Some(reshape) = reshape {
        document["reshape"] = json!({"shape": reshape.shape});
    }
}

fn instance_group(group: &ModelInstanceGroup) -> Value {
    let mut document = json!({
        "name": group.name,
        "kind": group.kind().as_str_name(),
        "count": group.count,
        "gpus": group.gpus,
        "profile": group.profile,
        "passive": group.passive,
        "host_policy": group.host_policy,
    });
    if let Some(limiter) = &group.rate_limiter {
        let resource = |one: &Resource| json!({"name": one.name, "global": one.global, "count": one.count});
        let resources: Vec<_> = limiter.resources.iter().map(resource).collect();
        document["rate_limiter"] = json!({"resources": resources, "priority": limiter.priority});
    }
    document
}

fn dynamic_batching(batching: &ModelDynamicBatching) -> Value {
    // JSON has text for keys only.
    let by_priority: Map<_, _> = batching
        .priority_queue_policy
        .iter()
        .map(|(priority, policy)| (priority.to_string(), queue_policy(policy)))
        .collect();
    let mut document = json!({
        "preferred_batch_size": batching.preferred_batch_size,
        "max_queue_delay_microseconds": batching.max_queue_delay_microseconds,
        "preserve_ordering": batching.preserve_ordering,
        "priority_levels": batching.priority_levels,
        "default_priority_level": batching.default_priority_level,
        "priority_queue_policy": by_priority,
    });
    if let Some(policy) = &batching.default_queue_policy {
        document["default_queue_policy"] = queue_policy(policy);
    }
    document
}

fn queue_policy(policy: &ModelQueuePolicy) -> Value {
    json!({
        "timeout_action": policy.timeout_action().as_str_name(),
        "default_timeout_microseconds": policy.default_timeout_microseconds,
        "allow_timeout_override": policy.allow_timeout_override,
        "max_queue_size": policy.max_queue_size,
    })
}

#[cfg(test)]
mod tests {
    use crate::rest::config::model;
    use crate::rest::testing;
    use penstock_core::ModelSpec;
    use serde_json::{Value, json};

    fn config(spec: &ModelSpec) -> Value {
        serde_json::from_slice(&model(spec)).unwrap()
    }

    #[test]
    fn json_config_has_the_fields_of_perf_analyzer() {
        let config = config(&testing::add());
        assert_eq!(config["max_batch_size"], 8);
        assert_eq!(config["input"][0]["data_type"], "TYPE_FP32");
        assert_eq!(config["input"][0]["dims"], json!([4]));
        assert_eq!(config["input"][0]["is_shape_tensor"], false);
        assert_eq!(config["model_transaction_policy"]["decoupled"], false);
        assert_eq!(config["response_cache"]["enable"], false);
        assert!(config["dynamic_batching"].is_object());
    }

    #[test]
    fn absent_config_fields_are_omitted() {
        let spec = ModelSpec { batching: None, ..testing::add() };
        let config = config(&spec);
        assert!(config.get("dynamic_batching").is_none() && config.get("sequence_batching").is_none());
        assert!(config["input"][0].get("reshape").is_none());
        assert_eq!(config["max_batch_size"], 0);
    }

    #[test]
    fn config_integers_of_64_bits_are_json_numbers() {
        let config = config(&testing::add());
        assert_eq!(config["dynamic_batching"]["max_queue_delay_microseconds"], 0);
        assert_eq!(config["dynamic_batching"]["default_queue_policy"]["max_queue_size"], 1024);
    }
}
