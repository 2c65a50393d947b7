//! Statistics of models: gRPC's message as JSON. Every key is present, since clients do not check for absence.

use crate::{
    generated::inference::{
        InferBatchStatistics, InferResponseStatistics, InferStatistics, ModelStatistics, ModelStatisticsResponse,
        StatisticDuration,
    },
    grpc,
};
use penstock_core::Model;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The body of `GET /v2/models/stats` and of a model's.
pub fn statistics(models: &[Arc<Model>]) -> Vec<u8> {
    let ModelStatisticsResponse { model_stats } = grpc::statistics(models);
    json!({"model_stats": model_stats.iter().map(entry).collect::<Vec<_>>()}).to_string().into_bytes()
}

fn entry(model: &ModelStatistics) -> Value {
    let responses: Map<_, _> =
        model.response_stats.iter().map(|(place, totals)| (place.clone(), response(totals))).collect();
    json!({
        "name": model.name,
        "version": model.version,
        "last_inference": model.last_inference,
        "inference_count": model.inference_count,
        "execution_count": model.execution_count,
        "inference_stats": inference(model.inference_stats.as_ref().unwrap_or(&InferStatistics::default())),
        "response_stats": responses,
        "batch_stats": model.batch_stats.iter().map(batch).collect::<Vec<_>>(),
        "memory_usage": model.memory_usage.iter().map(|usage| {
            json!({"type": usage.r#type, "id": usage.id, "byte_size": usage.byte_size})
        }).collect::<Vec<_>>(),
    })
}

fn inference(stats: &InferStatistics) -> Value {
    json!({
        "success": duration(stats.success.as_ref()),
        "fail": duration(stats.fail.as_ref()),
        "queue": duration(stats.queue.as_ref()),
        "compute_input": duration(stats.compute_input.as_ref()),
        "compute_infer": duration(stats.compute_infer.as_ref()),
        "compute_output": duration(stats.compute_output.as_ref()),
        "cache_hit": duration(stats.cache_hit.as_ref()),
        "cache_miss": duration(stats.cache_miss.as_ref()),
    })
}

fn batch(stats: &InferBatchStatistics) -> Value {
    json!({
        "batch_size": stats.batch_size,
        "compute_input": duration(stats.compute_input.as_ref()),
        "compute_infer": duration(stats.compute_infer.as_ref()),
        "compute_output": duration(stats.compute_output.as_ref()),
    })
}

fn response(stats: &InferResponseStatistics) -> Value {
    json!({
        "compute_infer": duration(stats.compute_infer.as_ref()),
        "compute_output": duration(stats.compute_output.as_ref()),
        "success": duration(stats.success.as_ref()),
        "fail": duration(stats.fail.as_ref()),
        "empty_response": duration(stats.empty_response.as_ref()),
        "cancel": duration(stats.cancel.as_ref()),
    })
}

fn duration(total: Option<&StatisticDuration>) -> Value {
    let (count, ns) = total.map_or((0, 0), |total| (total.count, total.ns));
    json!({"count": count, "ns": ns})
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::statistics::{ResponseOutcome, Statistics};
    use std::time::Duration;

    #[test]
    fn statistics_have_every_key_from_the_start() {
        let statistics = Statistics::default();
        let json = entry(&grpc::statistics_entry("m", "1", &statistics.snapshot()));
        let keys: Vec<_> = json["inference_stats"].as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 8);
        for key in keys {
            assert_eq!(json["inference_stats"][key], json!({"count": 0, "ns": 0}), "{key}");
        }
        assert_eq!(
            (&json["batch_stats"], &json["memory_usage"], &json["response_stats"]),
            (&json!([]), &json!([]), &json!({}))
        );
    }

    #[test]
    fn statistics_are_json_numbers() {
        let statistics = Statistics::default();
        statistics.failed(Duration::from_nanos(7));
        statistics.responded(3, Duration::from_nanos(2), Duration::from_nanos(1), ResponseOutcome::Success);
        let json = entry(&grpc::statistics_entry("m", "1", &statistics.snapshot()));
        assert_eq!(json["inference_stats"]["fail"], json!({"count": 1, "ns": 7}));
        assert_eq!(json["response_stats"]["3"]["success"], json!({"count": 1, "ns": 3}));
    }
}
