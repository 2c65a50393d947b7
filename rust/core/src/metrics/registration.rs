//! Registration of the metrics of requests, of instances, and of the server.

use super::Metrics;
use prometheus_client::registry::{Registry, Unit};

impl Metrics {
    /// Writes the families with exemplars.
    pub(super) fn write_traced(&self, text: &mut String) {
        self.request.write(
            text,
            "penstock_request_seconds",
            "Time of successful requests, from the arrival of the head to the response",
        );
        self.compute.write(text, "penstock_compute_seconds", "The handler's time for a batch");
    }

    pub(super) fn register_requests(&self, registry: &mut Registry) {
        let seconds = || Unit::Seconds;
        registry.register("requests", "Requests by model, protocol and outcome", self.requests.clone());
        self.streams.register(registry);
        self.tokens.register(registry);
        registry.register("batches", "Batches by the reason for their cut", self.batches.clone());
        registry.register("abandoned", "Requests abandoned before they were computed", self.abandoned.clone());
        registry.register(
            "displaced",
            "Waiting requests refused in favour of a higher priority",
            self.displaced.clone(),
        );
        registry.register("custom", "Counters that handlers define", self.custom.clone());
        registry.register_with_unit(
            "queue",
            "Time from arrival to the cut of the batch",
            seconds(),
            self.queue.clone(),
        );
        registry.register_with_unit(
            "batch_wait",
            "Time from the cut of a batch to its handler's start",
            seconds(),
            self.batch_wait.clone(),
        );
        registry.register_with_unit("encode", "Time to encode a response", seconds(), self.encode.clone());
        registry.register("batch_size", "Rows in a batch", self.batch_size.clone());
        registry.register_with_unit("handler", "Time spent in handlers", seconds(), self.handler.clone());
        registry.register_with_unit(
            "wasted",
            "Time spent in handlers for abandoned requests",
            seconds(),
            self.wasted.clone(),
        );
        registry.register_with_unit(
            "gil_held",
            "Time with the GIL: the boundary's, and the handler thread's CPU time",
            seconds(),
            self.gil_held.clone(),
        );
        registry.register_with_unit("boundary", "Time with the GIL outside handlers", seconds(), self.boundary.clone());
    }

    pub(super) fn register_instances(&self, registry: &mut Registry) {
        registry.register("queue_depth", "Requests in the queue", self.queue_depth.clone());
        registry.register("in_flight", "Requests accepted and not answered yet", self.in_flight.clone());
        registry.register("sequences", "Sequences that are active", self.sequences.clone());
        registry.register("sequences_lapsed", "Sequences ended by their idle timeout", self.sequences_lapsed.clone());
        registry.register("processes", "Instances whose process takes batches", self.processes.clone());
        registry.register("restarts", "Replaced processes by reason", self.restarts.clone());
        registry.register("cache_hits", "Requests answered from the cache", self.cache_hits.clone());
        registry.register("cache_misses", "Requests not found in the cache", self.cache_misses.clone());
        registry.register("cache_evictions", "Cache entries removed for room or age", self.cache_evictions.clone());
        registry.register("cache_shared_hits", "Hits in the shared cache", self.cache_shared_hits.clone());
        registry.register("cache_failures", "Failures of the shared cache", self.cache_failures.clone());
        registry.register("cache_bytes", "Bytes of the cache entries", self.cache_bytes.clone());
    }

    pub(super) fn register_server(&self, registry: &mut Registry) {
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register("body_bytes", "Bytes of requests in memory", self.body_bytes.clone());
        registry.register(
            "body_limit_bytes",
            "Limit on the bytes of requests in memory",
            self.body_limit_bytes.clone(),
        );
        registry.register("answer_bytes", "Bytes of large responses that are not sent yet", self.answer_bytes.clone());
        registry.register(
            "memory_limit_bytes",
            "Memory limit of the control group; 0 without one",
            self.memory_limit_bytes.clone(),
        );
        registry.register(
            "memory_used_bytes",
            "Memory that the control group uses and cannot drop",
            self.memory_used_bytes.clone(),
        );
        self.tls.register(registry);
        self.keys.register(registry);
        self.config.register(registry);
        self.stalls.register(registry);
        self.refused.register(registry);
        registry.register(
            "log_dropped",
            "Access log lines dropped because the log was too slow",
            self.log_dropped.clone(),
        );
        registry.register(
            "spans_dropped",
            "Spans dropped because the collector rejected them or was too slow",
            self.spans_dropped.clone(),
        );
    }
}
