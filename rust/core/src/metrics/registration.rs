//! Registration of the server's own metrics.

use super::Metrics;
use prometheus_client::registry::Registry;

impl Metrics {
    pub(super) fn register_server(&self, registry: &mut Registry) {
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register("body_bytes", "Bytes of requests in memory", self.body_bytes.clone());
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
        registry.register(
            "refused",
            "Calls and inference requests refused before their model was known",
            self.refused.clone(),
        );
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
