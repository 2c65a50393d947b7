//! Statistics of models under Triton's metric names, for dashboards and autoscalers.
//!
//! Triton's counters lack the suffix `_total` that OpenMetrics requires of a counter: the type is `unknown`, so that
//! the names fit.

use penstock_core::{
    Kind, Model,
    metrics::{escape_label, write_head, write_sample},
    statistics::Snapshot,
};
use std::sync::Arc;

/// A family whose value is read from a model's statistics.
type Counted = (&'static str, &'static str, fn(&Snapshot) -> u64);

const SUCCESS: Counted = ("nv_inference_request_success", "Requests that were answered well", |now| now.success.count);

const COUNTED: [Counted; 9] = [
    ("nv_inference_count", "Rows that were computed", |now| now.inferences),
    ("nv_inference_exec_count", "Calls of the model", |now| now.executions),
    ("nv_inference_request_duration_us", "Time of requests, waiting included", |now| now.success.ns / 1000),
    ("nv_inference_queue_duration_us", "Time of requests in the queue", |now| now.queue.ns / 1000),
    ("nv_inference_compute_input_duration_us", "Time before the model's call", |now| now.compute.input.ns / 1000),
    ("nv_inference_compute_infer_duration_us", "Time in the model's call", |now| now.compute.infer.ns / 1000),
    ("nv_inference_compute_output_duration_us", "Time after the model's call", |now| now.compute.output.ns / 1000),
    ("nv_cache_num_hits_per_model", "Requests answered from the cache", |now| now.cache_hit.count),
    ("nv_cache_num_misses_per_model", "Requests not answered from the cache", |now| now.cache_miss.count),
];

/// Why requests failed, as Triton sorts it. A request that is itself wrong counts nowhere, as there.
const REASONS: [(&str, &[Kind]); 4] = [
    ("REJECTED", &[Kind::Overloaded, Kind::Timeout]),
    ("CANCELED", &[Kind::Cancelled]),
    ("BACKEND", &[Kind::Handler]),
    ("OTHER", &[Kind::Unavailable, Kind::Internal]),
];

/// Buckets of times to the first response, in milliseconds.
const FIRST_RESPONSE_BUCKETS: [u32; 4] = [100, 500, 2000, 5000];

/// The families of all models, in the text form of OpenMetrics without its end.
pub fn triton_metrics(models: &[Arc<Model>]) -> String {
    let now: Vec<_> = models.iter().map(|model| (labels(model), model.metrics().statistics.snapshot())).collect();
    let mut text = String::new();
    counted(&mut text, SUCCESS, &now);
    failures(&mut text, models);
    for family in COUNTED {
        counted(&mut text, family, &now);
    }
    first_responses(&mut text, models);
    write_head(&mut text, "nv_inference_pending_request_count", "Requests that wait to be computed", "gauge");
    for (model, (labels, _)) in models.iter().zip(&now) {
        write_sample(&mut text, "nv_inference_pending_request_count", labels, model.metrics().queue_depth.get());
    }
    text
}

fn counted(text: &mut String, (name, help, value): Counted, models: &[(String, Snapshot)]) {
    write_head(text, name, help, "unknown");
    for (labels, now) in models {
        write_sample(text, name, labels, value(now));
    }
}

/// Times to the first response of models that stream, from a histogram in seconds that has these buckets.
fn first_responses(text: &mut String, models: &[Arc<Model>]) {
    let name = "nv_inference_first_response_histogram_ms";
    write_head(text, name, "Time from a request to the first response of its stream", "histogram");
    for model in models {
        let Some(stream) = &model.metrics().stream else { continue };
        let labels = labels(model);
        let (bounds, times) = (stream.first_response.bounds(), stream.first_response.distribution());
        write_sample(text, &format!("{name}_count"), &labels, times.count());
        write_sample(text, &format!("{name}_sum"), &labels, times.sum * 1e3);
        for bucket in FIRST_RESPONSE_BUCKETS {
            let count = times.up_to(bounds, f64::from(bucket) / 1e3);
            write_sample(text, &format!("{name}_bucket"), &format!("{labels},le=\"{bucket}.0\""), count);
        }
        write_sample(text, &format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), times.count());
    }
}

fn failures(text: &mut String, models: &[Arc<Model>]) {
    let name = "nv_inference_request_failure";
    write_head(text, name, "Requests that failed, by the reason", "unknown");
    for model in models {
        let labels = labels(model);
        for (reason, kinds) in REASONS {
            let count: u64 = kinds.iter().map(|kind| model.metrics().failures(*kind)).sum();
            write_sample(text, name, &format!("{labels},reason=\"{reason}\""), count);
        }
    }
}

fn labels(model: &Model) -> String {
    let spec = model.spec();
    format!("model=\"{}\",version=\"{}\"", escape_label(&spec.name), escape_label(&spec.version))
}
