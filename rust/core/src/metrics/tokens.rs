//! Metrics of tokens. A model has series of them from the first request on whose tokens are recorded.

use super::{ModelMetrics, histogram::Histogram, labels::ModelLabels};
use crate::TokenUsage;
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Metrics of tokens of all models.
#[derive(Clone, Debug)]
pub(super) struct TokenFamilies {
    prompt_tokens: Family<ModelLabels, Counter>,
    completion_tokens: Family<ModelLabels, Counter>,
    request_prompt_tokens: Family<ModelLabels, Histogram>,
    request_completion_tokens: Family<ModelLabels, Histogram>,
    completion_tokens_per_second: Family<ModelLabels, Histogram>,
}

/// Metrics of one model's tokens.
#[derive(Debug)]
pub(super) struct TokenMetrics {
    prompts: Counter,
    completions: Counter,
    prompt: Histogram,
    completion: Histogram,
    rate: Histogram,
}

/// 1, 2, 5, 10 and so on to a million, as the counts of tokens of other servers.
fn counts() -> Histogram {
    Histogram::of_decades(0, 6)
}

/// 0.1 to 10,000 a second.
fn rates() -> Histogram {
    Histogram::of_decades(-1, 4)
}

impl Default for TokenFamilies {
    fn default() -> Self {
        Self {
            prompt_tokens: Family::default(),
            completion_tokens: Family::default(),
            request_prompt_tokens: Family::new_with_constructor(counts),
            request_completion_tokens: Family::new_with_constructor(counts),
            completion_tokens_per_second: Family::new_with_constructor(rates),
        }
    }
}

impl TokenFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("prompt_tokens", "Recorded tokens of prompts", self.prompt_tokens.clone());
        registry.register("completion_tokens", "Recorded tokens that were generated", self.completion_tokens.clone());
        registry.register(
            "request_prompt_tokens",
            "Recorded tokens of a request's prompt",
            self.request_prompt_tokens.clone(),
        );
        registry.register(
            "request_completion_tokens",
            "Recorded tokens that a request generated",
            self.request_completion_tokens.clone(),
        );
        registry.register(
            "completion_tokens_per_second",
            "Recorded tokens that a request generated, by the time of its handler",
            self.completion_tokens_per_second.clone(),
        );
    }

    fn of(&self, labels: &ModelLabels) -> TokenMetrics {
        TokenMetrics {
            prompts: self.prompt_tokens.get_or_create(labels).clone(),
            completions: self.completion_tokens.get_or_create(labels).clone(),
            prompt: self.request_prompt_tokens.get_or_create(labels).clone(),
            completion: self.request_completion_tokens.get_or_create(labels).clone(),
            rate: self.completion_tokens_per_second.get_or_create(labels).clone(),
        }
    }
}

impl ModelMetrics {
    /// Recorded tokens that were generated.
    pub(super) fn completion_tokens(&self) -> Option<u64> {
        self.tokens.get().map(|tokens| tokens.completions.get())
    }

    /// Counts the tokens of one request.
    pub(super) fn count_tokens(&self, usage: &TokenUsage) {
        let metrics = self.tokens.get_or_init(|| self.token_families.of(&self.labels));
        if let Some(prompt) = usage.prompt {
            metrics.prompts.inc_by(prompt);
            metrics.prompt.observe(prompt as f64);
        }
        if let Some(completion) = usage.completion {
            metrics.completions.inc_by(completion);
            metrics.completion.observe(completion as f64);
            let seconds = usage.duration.as_secs_f64();
            if completion > 0 && seconds > 0.0 {
                metrics.rate.observe(completion as f64 / seconds);
            }
        }
    }
}
