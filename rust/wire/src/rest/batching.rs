//! Batching report of the models, and the knobs to change it.

use penstock_core::{
    Error, Model, Result,
    queue::{BatchRecord, QueueReport, Tuning},
};
use serde_json::{Map, Value, json};
use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// The longest `max_delay` that can be set, in seconds.
const LONGEST_DELAY: f64 = 3600.0;

/// The body of `GET /debug/batching`.
pub fn debug(models: &[Arc<Model>]) -> Vec<u8> {
    json!({"models": models.iter().map(|model| entry(model)).collect::<Vec<_>>()}).to_string().into_bytes()
}

/// Response to a change: the report from now on.
pub fn changed(model: &Model) -> Vec<u8> {
    entry(model).to_string().into_bytes()
}

fn entry(model: &Model) -> Value {
    let report = model.queue().report();
    json!({
        "name": &*model.spec().name,
        "version": &*model.spec().version,
        "settings": settings(&report),
        "max_cost": report.max_cost,
        "target_p99": report.target.map(seconds),
        "max_duration": report.max_duration.map(seconds),
        "learned": {
            "fixed_seconds": seconds(report.fixed),
            "row_seconds": report.max_cost.is_none().then(|| seconds(report.per_unit)),
            "cost_seconds": report.max_cost.is_some().then(|| seconds(report.per_unit)),
            "returning": report.returning,
            "hold_seconds": seconds(report.window),
            "max_size": report.learned_max_size,
            "rows_per_second": report.rows_per_second,
        },
        "waiting": {
            "requests": report.waiting.requests,
            "rows": report.waiting.rows,
            "bytes": report.waiting.bytes,
        },
        "computing": report.computing,
        "decisions": report.decisions.iter().map(decision).collect::<Vec<_>>(),
    })
}

fn settings(report: &QueueReport) -> Value {
    json!({
        "max_size": report.max_size,
        "max_delay": seconds(report.max_delay),
        "hold": report.hold,
        "max_queue": report.bounds.requests,
        "max_queue_rows": report.bounds.rows,
        "max_queue_bytes": report.bounds.bytes,
    })
}

fn decision(note: &BatchRecord) -> Value {
    json!({
        "time": seconds(note.answered.duration_since(UNIX_EPOCH).unwrap_or_default()),
        "reason": note.reason.name(),
        "requests": note.requests,
        "rows": note.rows,
        "cost": note.cost,
        "waited_seconds": seconds(note.waited),
        "duration_seconds": seconds(note.duration),
    })
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// Reads the knobs of a change.
///
/// # Errors
/// `InvalidInput` with the knob, what came and what was expected.
pub fn knobs(body: &[u8]) -> Result<Tuning> {
    let object: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| Error::invalid("the body is not a JSON object"))?;
    let mut knobs = Tuning::default();
    for (name, value) in &object {
        match name.as_str() {
            "max_size" => knobs.max_size = Some(count(name, value)?),
            "max_delay" => knobs.max_delay = Some(delay(name, value)?),
            "hold" => knobs.hold = Some(value.as_bool().ok_or_else(|| wrong(name, value, "true or false"))?),
            "max_queue" => knobs.max_queue = Some(count(name, value)?),
            "max_queue_rows" => knobs.max_queue_rows = Some(bound(name, value)?),
            "max_queue_bytes" => knobs.max_queue_bytes = Some(bound(name, value)?),
            _ => {
                return Err(Error::invalid(format!(
                    "unexpected knob '{name}', expected max_size, max_delay, hold, max_queue, max_queue_rows or \
                     max_queue_bytes"
                )));
            }
        }
    }
    Ok(knobs)
}

fn count(name: &str, value: &Value) -> Result<usize> {
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
    count.ok_or_else(|| wrong(name, value, "an integer of 1 or more"))
}

fn bound(name: &str, value: &Value) -> Result<Option<usize>> {
    match value {
        Value::Null => Ok(None),
        value => count(name, value).map(Some).map_err(|_| wrong(name, value, "an integer of 1 or more, or null")),
    }
}

fn delay(name: &str, value: &Value) -> Result<Duration> {
    let seconds = value.as_f64().filter(|seconds| (0.0..=LONGEST_DELAY).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| wrong(name, value, "0 to 3600 seconds"))
}

fn wrong(name: &str, value: &Value, expected: &str) -> Error {
    Error::invalid(format!("'{name}' is {value}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuning_knobs_are_parsed_or_refused_by_name() {
        let all = br#"{"max_size": 4, "max_delay": 0.5, "hold": false, "max_queue": 9, "max_queue_rows": null}"#;
        let expected = Tuning {
            max_size: Some(4),
            max_delay: Some(Duration::from_millis(500)),
            hold: Some(false),
            max_queue: Some(9),
            max_queue_rows: Some(None),
            max_queue_bytes: None,
        };
        assert_eq!(knobs(all).unwrap(), expected);
        assert_eq!(knobs(b"{}").unwrap(), Tuning::default());
        for (body, text) in [
            (r#"{"size": 4}"#, "unexpected knob 'size'"),
            (r#"{"max_size": 0}"#, "'max_size' is 0, expected an integer of 1 or more"),
            (r#"{"max_delay": -1}"#, "'max_delay' is -1, expected 0 to 3600 seconds"),
            (r#"{"hold": "no"}"#, "'hold' is \"no\", expected true or false"),
            (r#"{"max_queue_bytes": 1.5}"#, "'max_queue_bytes' is 1.5, expected an integer of 1 or more, or null"),
            ("[]", "the body is not a JSON object"),
        ] {
            assert!(knobs(body.as_bytes()).unwrap_err().message().starts_with(text), "{body}");
        }
    }
}
