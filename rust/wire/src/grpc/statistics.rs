//! A model's statistics.

use crate::generated::inference::{
    InferBatchStatistics, InferResponseStatistics, InferStatistics, ModelStatistics, ModelStatisticsResponse,
    StatisticDuration,
};
use penstock_core::{
    Model,
    statistics::{ResponseTotals, Snapshot, Total},
};
use std::sync::Arc;

/// The statistics of these models, in their order.
pub fn statistics(models: &[Arc<Model>]) -> ModelStatisticsResponse {
    let one = |model: &Arc<Model>| {
        let spec = model.spec();
        entry(&spec.name, &spec.version, &model.metrics().statistics.snapshot())
    };
    ModelStatisticsResponse { model_stats: models.iter().map(one).collect() }
}

/// One model version's entry.
pub(crate) fn entry(name: &str, version: &str, now: &Snapshot) -> ModelStatistics {
    ModelStatistics {
        name: name.to_owned(),
        version: version.to_owned(),
        last_inference: now.last_inference_ms,
        inference_count: now.inferences,
        execution_count: now.executions,
        inference_stats: Some(InferStatistics {
            success: duration(now.success),
            fail: duration(now.fail),
            queue: duration(now.queue),
            compute_input: duration(now.compute.input),
            compute_infer: duration(now.compute.infer),
            compute_output: duration(now.compute.output),
            cache_hit: duration(now.cache_hit),
            cache_miss: duration(now.cache_miss),
        }),
        batch_stats: now
            .batches
            .iter()
            .map(|(&rows, totals)| InferBatchStatistics {
                batch_size: rows as u64,
                compute_input: duration(totals.input),
                compute_infer: duration(totals.infer),
                compute_output: duration(totals.output),
            })
            .collect(),
        memory_usage: Vec::new(),
        response_stats: now.responses.iter().map(|(place, totals)| (place.to_string(), response(totals))).collect(),
    }
}

fn response(totals: &ResponseTotals) -> InferResponseStatistics {
    InferResponseStatistics {
        compute_infer: duration(totals.infer),
        compute_output: duration(totals.output),
        success: duration(totals.success),
        fail: duration(totals.fail),
        empty_response: duration(totals.empty),
        cancel: duration(totals.cancel),
    }
}

fn duration(total: Total) -> Option<StatisticDuration> {
    Some(StatisticDuration { count: total.count, ns: total.ns })
}
