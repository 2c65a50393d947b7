//! A model's configuration in Triton's form, for clients of every protocol.

use crate::generated::{
    inference as pb,
    inference::{
        model_config::SchedulingChoice, model_queue_policy::TimeoutAction, model_version_policy::PolicyChoice,
    },
};
use penstock_core::{
    Batching, Datatype, Level, ModelSpec, Overdue, Oversize, Queueing, ResourceRequest, TensorSpec, VersionPolicy,
};
use std::{collections::BTreeMap, time::Duration};

/// Returns a model's configuration. Inputs and outputs are those of the metadata, without the batch axis.
///
/// `dynamic_batching` is present only when requests are batched: clients check its presence. Settings without a field
/// are in `parameters`.
pub fn config(spec: &ModelSpec) -> pb::ModelConfig {
    let instances = pb::ModelInstanceGroup {
        name: spec.name.to_string(),
        count: clamped(spec.instances),
        kind: pb::model_instance_group::Kind::Cpu.into(),
        rate_limiter: spec.resources.as_ref().map(rate_limiter),
        ..pb::ModelInstanceGroup::default()
    };
    pb::ModelConfig {
        name: spec.name.to_string(),
        platform: spec.platform.to_string(),
        backend: "python".to_owned(),
        version_policy: version_policy(&spec.version_policy),
        max_batch_size: if spec.raw_requests { 0 } else { clamped(spec.max_batch_size()) },
        input: spec.inputs.iter().map(input).collect(),
        output: spec.outputs.iter().map(output).collect(),
        instance_group: vec![instances],
        scheduling_choice: scheduling(spec),
        parameters: parameters(spec),
        model_transaction_policy: Some(pb::ModelTransactionPolicy { decoupled: spec.streams }),
        response_cache: Some(pb::ModelResponseCache { enable: spec.cache.is_some() }),
        ..pb::ModelConfig::default()
    }
}

/// The message names versions by numbers: there is none for versions with other names.
fn version_policy(policy: &VersionPolicy) -> Option<pb::ModelVersionPolicy> {
    use pb::model_version_policy::{All, Latest, Specific};
    let choice = match policy {
        VersionPolicy::All => PolicyChoice::All(All {}),
        VersionPolicy::Latest(num_versions) => PolicyChoice::Latest(Latest { num_versions: *num_versions }),
        VersionPolicy::Specific(names) => {
            let versions = names.iter().map(|name| name.parse::<i64>()).collect::<Result<Vec<_>, _>>().ok()?;
            PolicyChoice::Specific(Specific { versions })
        }
    };
    Some(pb::ModelVersionPolicy { policy_choice: Some(choice) })
}

/// A priority there is the inverse of a weight; one above 1 has no place in it.
fn rate_limiter(needs: &ResourceRequest) -> pb::ModelRateLimiter {
    let resource = |(name, amount): &(std::sync::Arc<str>, u64)| pb::model_rate_limiter::Resource {
        name: name.to_string(),
        global: true,
        count: u32::try_from(*amount).unwrap_or(u32::MAX),
    };
    pb::ModelRateLimiter {
        resources: needs.amounts.iter().map(resource).collect(),
        priority: (1.0 / needs.weight).round().max(1.0) as u32,
    }
}

fn input(tensor: &TensorSpec) -> pb::ModelInput {
    pb::ModelInput {
        name: tensor.name.to_string(),
        data_type: data_type(tensor.datatype).into(),
        dims: tensor.wire_shape(false),
        optional: tensor.optional,
        allow_ragged_batch: tensor.ragged.is_some(),
        ..pb::ModelInput::default()
    }
}

fn output(tensor: &TensorSpec) -> pb::ModelOutput {
    pb::ModelOutput {
        name: tensor.name.to_string(),
        data_type: data_type(tensor.datatype).into(),
        dims: tensor.wire_shape(false),
        ..pb::ModelOutput::default()
    }
}

fn scheduling(spec: &ModelSpec) -> Option<SchedulingChoice> {
    match &spec.sequences {
        Some(sequences) => Some(SchedulingChoice::SequenceBatching(pb::ModelSequenceBatching {
            max_sequence_idle_microseconds: microseconds(sequences.idle_timeout),
            ..pb::ModelSequenceBatching::default()
        })),
        None => dynamic(spec).map(|batching| dynamic_batching(spec, batching)),
    }
}

fn dynamic(spec: &ModelSpec) -> Option<&Batching> {
    spec.batching.as_ref().filter(|batching| batching.dynamic)
}

fn dynamic_batching(spec: &ModelSpec, batching: &Batching) -> SchedulingChoice {
    let (priority_levels, default_priority_level) = priorities(spec);
    SchedulingChoice::DynamicBatching(pb::ModelDynamicBatching {
        preferred_batch_size: batching.preferred_sizes.iter().map(|&size| clamped(size)).collect(),
        max_queue_delay_microseconds: batching.max_delay_ns / 1000,
        // For levels without a policy.
        default_queue_policy: Some(policy(spec, usize::MAX)),
        priority_levels,
        default_priority_level,
        priority_queue_policy: (0..spec.queueing.levels.len())
            .map(|level| (level as u64 + 1, policy(spec, level)))
            .collect(),
        ..pb::ModelDynamicBatching::default()
    })
}

/// Returns the queue policy of a level, counted from 0.
fn policy(spec: &ModelSpec, level: usize) -> pb::ModelQueuePolicy {
    let Level { max_size, timeout, overdue } = spec.queueing.policy(level);
    let action = match overdue {
        Overdue::Reject => TimeoutAction::Reject,
        Overdue::Delay => TimeoutAction::Delay,
    };
    pb::ModelQueuePolicy {
        timeout_action: action.into(),
        default_timeout_microseconds: timeout.map_or(0, microseconds),
        // A request's own `timeout` always counts.
        allow_timeout_override: true,
        max_queue_size: u32::try_from(max_size.unwrap_or(spec.max_queue)).unwrap_or(u32::MAX),
    }
}

/// The levels of priority and the default one; zeros without any.
fn priorities(spec: &ModelSpec) -> (u64, u64) {
    let Queueing { priorities, default_priority, .. } = &spec.queueing;
    if *priorities > 1 { (*priorities as u64, *default_priority as u64) } else { (0, 0) }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Those of Penstock's settings that Triton's form has no place for.
fn parameters(spec: &ModelSpec) -> BTreeMap<String, pb::ModelParameter> {
    let mut found = vec![("max_queue", spec.max_queue.to_string())];
    if let Some(batching) = &spec.batching {
        let oversize = match batching.oversize {
            Oversize::Refuse => "refuse",
            Oversize::Split => "split",
        };
        found.extend([("hold", batching.hold.to_string()), ("oversize", oversize.to_owned())]);
        found.extend(batching.cost.as_ref().map(|cost| ("max_cost", cost.max_cost.to_string())));
        found.extend(batching.target_ns.map(|target| ("target_p99_microseconds", (target / 1000).to_string())));
        found.extend(batching.max_duration_ns.map(|most| ("max_duration_microseconds", (most / 1000).to_string())));
    }
    if let Some(sequences) = &spec.sequences {
        found.push(("max_active_sequences", sequences.max_active.to_string()));
    } else if dynamic(spec).is_none() {
        // With dynamic batching they have fields of their own.
        let (levels, default) = priorities(spec);
        if levels > 0 {
            found.extend([("priority_levels", levels.to_string()), ("default_priority_level", default.to_string())]);
        }
    }
    if let Some(timeout) = spec.queueing.timeout.filter(|_| spec.sequences.is_some() || dynamic(spec).is_none()) {
        found.push(("default_timeout_microseconds", microseconds(timeout).to_string()));
    }
    let parameter = |(name, string_value): (&str, String)| (name.to_owned(), pb::ModelParameter { string_value });
    found.into_iter().map(parameter).collect()
}

fn data_type(datatype: Datatype) -> pb::DataType {
    match datatype {
        Datatype::Bytes => pb::DataType::TypeString,
        datatype => pb::DataType::from_str_name(&format!("TYPE_{datatype}")).unwrap_or(pb::DataType::TypeInvalid),
    }
}

fn clamped(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::{
        metadata,
        testing::{input, spec},
    };
    use penstock_core::Sequences;

    fn batched() -> ModelSpec {
        let mut spec = spec(vec![input("x", Datatype::Fp32, &[-1, 16]), input("t", Datatype::Bytes, &[])]);
        spec.inputs[1].optional = true;
        spec.max_queue = 7;
        spec.batching = Some(Batching { max_delay_ns: 3_000_000, preferred_sizes: vec![4, 8], ..Batching::new(8) });
        spec
    }

    #[test]
    fn model_config_agrees_with_the_metadata() {
        let spec = batched();
        let (config, metadata) = (config(&spec), metadata::model(&spec, &["1"]));
        assert_eq!(config.max_batch_size, 8);
        for (configured, shown) in config.input.iter().zip(&metadata.inputs) {
            assert_eq!(configured.name, shown.name);
            assert_eq!(configured.dims, shown.shape[1..]);
        }
        let raw_model = ModelSpec { raw_requests: true, ..spec.clone() };
        let (config, metadata) = (super::config(&raw_model), metadata::model(&raw_model, &["1"]));
        assert_eq!((config.max_batch_size, &config.input[0].dims), (0, &metadata.inputs[0].shape));
        assert_eq!(config.input[1].data_type(), pb::DataType::TypeString);
        assert!(config.input[1].optional && !config.input[0].optional);
        assert_eq!(config.output.len(), metadata.outputs.len());
    }

    #[test]
    fn model_config_shows_dynamic_batching() {
        let Some(SchedulingChoice::DynamicBatching(dynamic)) = config(&batched()).scheduling_choice else {
            panic!("a dynamic model is configured as one");
        };
        assert_eq!(dynamic.max_queue_delay_microseconds, 3000);
        assert_eq!(dynamic.preferred_batch_size, [4, 8]);
        assert_eq!(dynamic.default_queue_policy.unwrap().max_queue_size, 7);
        assert_eq!((dynamic.priority_levels, dynamic.default_priority_level), (0, 0));
    }

    #[test]
    fn model_config_shows_queue_policy_and_priorities() {
        let mut spec = batched();
        spec.queueing = Queueing {
            priorities: 3,
            default_priority: 2,
            timeout: Some(Duration::from_millis(5)),
            ..Queueing::default()
        };
        let Some(SchedulingChoice::DynamicBatching(dynamic)) = config(&spec).scheduling_choice else {
            panic!("a dynamic model is configured as one");
        };
        assert_eq!((dynamic.priority_levels, dynamic.default_priority_level), (3, 2));
        assert_eq!(dynamic.default_queue_policy.unwrap().default_timeout_microseconds, 5000);
        spec.batching = None;
        let parameters = config(&spec).parameters;
        let shown = ["priority_levels", "default_priority_level", "default_timeout_microseconds"];
        assert_eq!(shown.map(|name| parameters[name].string_value.as_str()), ["3", "2", "5000"]);
    }

    #[test]
    fn model_config_shows_sequence_batching() {
        let mut spec = batched();
        spec.sequences = Some(Sequences { idle_timeout: Duration::from_secs(30), max_active: 8 });
        let config = config(&spec);
        let Some(SchedulingChoice::SequenceBatching(sequence)) = config.scheduling_choice else {
            panic!("its presence is the signal");
        };
        assert_eq!(sequence.max_sequence_idle_microseconds, 30_000_000);
        assert_eq!(config.parameters["max_active_sequences"].string_value, "8");
    }

    #[test]
    fn model_config_shows_the_version_policy() {
        let shown = |version_policy| {
            let policy = config(&ModelSpec { version_policy, ..batched() }).version_policy;
            policy.and_then(|policy| policy.policy_choice)
        };
        assert!(matches!(shown(VersionPolicy::All), Some(PolicyChoice::All(_))));
        let Some(PolicyChoice::Latest(latest)) = shown(VersionPolicy::Latest(2)) else { panic!("latest") };
        assert_eq!(latest.num_versions, 2);
        let names = |names: &[&str]| VersionPolicy::Specific(names.iter().map(|name| (*name).to_owned()).collect());
        let Some(PolicyChoice::Specific(specific)) = shown(names(&["1", "30"])) else { panic!("specific") };
        assert_eq!(specific.versions, [1, 30]);
        assert_eq!(shown(names(&["1", "2026-11-01"])), None);
    }

    #[test]
    fn model_config_without_dynamic_batching_has_no_scheduler() {
        let mut spec = batched();
        spec.batching.as_mut().unwrap().dynamic = false;
        assert_eq!(config(&spec).scheduling_choice, None);
        spec.batching = None;
        let config = config(&spec);
        assert_eq!(config.max_batch_size, 0);
        assert_eq!(config.parameters.keys().collect::<Vec<_>>(), ["max_queue"]);
    }

    #[test]
    fn each_datatype_has_its_config_type() {
        let types: std::collections::BTreeSet<i32> = Datatype::ALL.map(|datatype| data_type(datatype).into()).into();
        assert_eq!(types, (1..=14).collect());
        for datatype in Datatype::ALL {
            let name = data_type(datatype).as_str_name();
            let expected = if datatype == Datatype::Bytes { "TYPE_STRING".into() } else { format!("TYPE_{datatype}") };
            assert_eq!(name, expected);
        }
    }
}
