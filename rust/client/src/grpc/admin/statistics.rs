//! Statistics in REST's form.

use penstock_wire::generated::inference as pb;
use serde_json::{Map, Value, json};

pub(super) fn value(statistics: &pb::ModelStatisticsResponse) -> Value {
    json!({"model_stats": statistics.model_stats.iter().map(model).collect::<Vec<_>>()})
}

fn model(model: &pb::ModelStatistics) -> Value {
    let batch = |batch: &pb::InferBatchStatistics| {
        json!({
            "batch_size": batch.batch_size,
            "compute_input": duration(batch.compute_input.as_ref()),
            "compute_infer": duration(batch.compute_infer.as_ref()),
            "compute_output": duration(batch.compute_output.as_ref()),
        })
    };
    let response = |response: &pb::InferResponseStatistics| {
        json!({
            "compute_infer": duration(response.compute_infer.as_ref()),
            "compute_output": duration(response.compute_output.as_ref()),
            "success": duration(response.success.as_ref()),
            "fail": duration(response.fail.as_ref()),
            "empty_response": duration(response.empty_response.as_ref()),
            "cancel": duration(response.cancel.as_ref()),
        })
    };
    let responses: Map<String, Value> =
        model.response_stats.iter().map(|(place, one)| (place.clone(), response(one))).collect();
    let memory =
        |memory: &pb::MemoryUsage| json!({"type": memory.r#type, "id": memory.id, "byte_size": memory.byte_size});
    json!({
        "name": model.name,
        "version": model.version,
        "last_inference": model.last_inference,
        "inference_count": model.inference_count,
        "execution_count": model.execution_count,
        "inference_stats": inference(&model.inference_stats.unwrap_or_default()),
        "response_stats": responses,
        "batch_stats": model.batch_stats.iter().map(batch).collect::<Vec<_>>(),
        "memory_usage": model.memory_usage.iter().map(memory).collect::<Vec<_>>(),
    })
}

fn inference(statistics: &pb::InferStatistics) -> Value {
    json!({
        "success": duration(statistics.success.as_ref()),
        "fail": duration(statistics.fail.as_ref()),
        "queue": duration(statistics.queue.as_ref()),
        "compute_input": duration(statistics.compute_input.as_ref()),
        "compute_infer": duration(statistics.compute_infer.as_ref()),
        "compute_output": duration(statistics.compute_output.as_ref()),
        "cache_hit": duration(statistics.cache_hit.as_ref()),
        "cache_miss": duration(statistics.cache_miss.as_ref()),
    })
}

fn duration(duration: Option<&pb::StatisticDuration>) -> Value {
    let (count, ns) = duration.map_or((0, 0), |duration| (duration.count, duration.ns));
    json!({"count": count, "ns": ns})
}
