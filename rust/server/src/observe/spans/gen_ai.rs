//! Attributes of OpenTelemetry's conventions for generative AI, of requests whose tokens are recorded.

use super::{
    record::{attribute, text},
    request::RequestTrace,
};
use penstock_core::{ModelUsage, TokenUsage};
use penstock_wire::generated::trace::{AnyValue, ArrayValue, KeyValue, any_value::Value};

/// The value of `gen_ai.provider.name`: no provider of the conventions.
const PROVIDER: &str = "penstock";

/// Attributes of a request to a model.
pub(super) fn attributes(request: &RequestTrace, used: &ModelUsage) -> Vec<KeyValue> {
    let TokenUsage { prompt, completion, finish_reason, operation, .. } = &used.usage;
    let mut attributes = vec![
        text("gen_ai.operation.name", operation.name()),
        text("gen_ai.provider.name", PROVIDER),
        text("gen_ai.request.model", &used.model.name),
        text("gen_ai.response.model", &used.model.name),
    ];
    for (key, count) in [("gen_ai.usage.input_tokens", prompt), ("gen_ai.usage.output_tokens", completion)] {
        // A count is at most 2^53.
        let count = count.and_then(|count| i64::try_from(count).ok());
        attributes.extend(count.map(|count| attribute(key, Value::IntValue(count))));
    }
    if let Some(reason) = finish_reason {
        let reason = AnyValue { value: Some(Value::StringValue(reason.clone())) };
        let reasons = Value::ArrayValue(ArrayValue { values: vec![reason] });
        attributes.push(attribute("gen_ai.response.finish_reasons", reasons));
    }
    if let Some(responded) = request.responded.get() {
        let seconds = responded.saturating_duration_since(request.started).as_secs_f64();
        attributes.push(attribute("gen_ai.request.stream", Value::BoolValue(true)));
        attributes.push(attribute("gen_ai.response.time_to_first_chunk", Value::DoubleValue(seconds)));
    }
    attributes
}
