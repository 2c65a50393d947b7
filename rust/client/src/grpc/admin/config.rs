//! A model's configuration in REST's form: what a client may want of it.

use penstock_wire::generated::inference::{self as pb, model_config::SchedulingChoice};
use serde_json::{Map, Value, json};

pub(super) fn value(config: pb::ModelConfig) -> Value {
    let input = |input: &pb::ModelInput| {
        json!({
            "name": input.name, "data_type": input.data_type().as_str_name(), "dims": input.dims,
            "optional": input.optional,
        })
    };
    let output = |output: &pb::ModelOutput| json!({"name": output.name, "data_type": output.data_type().as_str_name(), "dims": output.dims});
    let group = |group: &pb::ModelInstanceGroup| json!({"name": group.name, "kind": group.kind().as_str_name(), "count": group.count, "gpus": group.gpus});
    let parameters: Map<String, Value> = config
        .parameters
        .iter()
        .map(|(name, value)| (name.clone(), json!({"string_value": value.string_value})))
        .collect();
    let decoupled = config.model_transaction_policy.is_some_and(|policy| policy.decoupled);
    let mut value = json!({
        "name": config.name,
        "platform": config.platform,
        "backend": config.backend,
        "max_batch_size": config.max_batch_size,
        "input": config.input.iter().map(input).collect::<Vec<_>>(),
        "output": config.output.iter().map(output).collect::<Vec<_>>(),
        "instance_group": config.instance_group.iter().map(group).collect::<Vec<_>>(),
        "model_transaction_policy": {"decoupled": decoupled},
        "parameters": parameters,
    });
    match config.scheduling_choice {
        Some(SchedulingChoice::DynamicBatching(dynamic)) => {
            value["dynamic_batching"] = json!({
                "preferred_batch_size": dynamic.preferred_batch_size,
                "max_queue_delay_microseconds": dynamic.max_queue_delay_microseconds,
            });
        }
        Some(SchedulingChoice::SequenceBatching(sequence)) => {
            value["sequence_batching"] =
                json!({"max_sequence_idle_microseconds": sequence.max_sequence_idle_microseconds});
        }
        Some(SchedulingChoice::EnsembleScheduling(_)) => value["ensemble_scheduling"] = json!({}),
        None => {}
    }
    value
}
