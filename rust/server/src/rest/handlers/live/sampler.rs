//! The state that viewers see, once a second.

use super::{
    delta::delta,
    model::{Window, rounded, unix_ms},
    processes::Processes,
};
use crate::{
    observe::live::{ErrorRecord, RequestRecord, Update},
    state::{App, Phase},
};
use bytes::Bytes;
use penstock_core::{IndexEntry, ModelSpec};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// Versions of models that are listed.
const MAX_MODELS: usize = 200;

/// Versions that do not serve and are listed.
const MAX_OTHERS: usize = 50;

/// Readings of earlier samples.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    number: u64,
    windows: HashMap<(Arc<str>, Arc<str>), Window>,
    processes: Processes,
    state: Arc<Value>,
}

impl Sampler {
    /// Samples the server.
    pub(super) fn sample(&mut self, app: &App) -> Update {
        let started = Instant::now();
        let models = app.registry.all();
        let mut windows = std::mem::take(&mut self.windows);
        let mut described = Map::new();
        for model in models.iter().take(MAX_MODELS) {
            let spec = model.spec();
            let key = (Arc::clone(&spec.name), Arc::clone(&spec.version));
            let mut window = windows.remove(&key).unwrap_or_default();
            described.insert(format!("{}/{}", key.0, key.1), window.describe(model, &mut self.processes));
            self.windows.insert(key, window);
        }
        let others = others(&app.registry.index(), &mut described);
        let (last, slowest) = app.live.requests.read();
        let state = json!({
            "server": self.server(app, models.len()),
            "models": described,
            "others": others,
            "errors": keyed(&app.live.errors.all(), error),
            "requests": { "last": keyed(&last, request), "slowest": keyed(&slowest, request) },
        });
        self.processes.retain_since(started);
        let changes = delta(&self.state, &state).unwrap_or_else(|| json!({}));
        self.number += 1;
        self.state = Arc::new(state);
        Update { number: self.number, state: Arc::clone(&self.state), delta: Bytes::from(changes.to_string()) }
    }

    fn server(&mut self, app: &App, models: usize) -> Value {
        let (config, metrics, now) = (&app.config, &app.metrics, SystemTime::now());
        let own = self.processes.read(std::process::id());
        json!({
            "name": config.server_name,
            "version": config.server_version,
            "phase": match app.phase() {
                Phase::Starting => "starting",
                Phase::Ready => "ready",
                Phase::Leaving => "leaving",
                Phase::Draining => "draining",
            },
            "pid": std::process::id(),
            "started": unix_ms(app.live.started(), Duration::ZERO),
            "time": unix_ms(now, Duration::ZERO),
            "models": models,
            "viewers": app.live.viewer_count(),
            "requests_under_way": app.requests_under_way(),
            "connections": metrics.connections.get(),
            "body_bytes": metrics.body_bytes.get(),
            "max_body_bytes": config.limits.max_inflight_bytes.get(),
            "answer_bytes": metrics.answer_bytes.get(),
            "refused": metrics.refused.total(),
            "log_dropped": metrics.log_dropped.get(),
            "rss": own.map(|(usage, _)| usage.rss),
            "threads": own.map(|(usage, _)| usage.threads),
            "cpu": own.and_then(|(_, cpu)| cpu).map(rounded),
        })
    }
}

/// Versions that do not serve, with the reasons. Those that serve, and could not be reloaded, get theirs.
fn others(index: &[IndexEntry], serving: &mut Map<String, Value>) -> Value {
    let mut others = Map::new();
    for IndexEntry { name, version, reason } in index {
        let Some((version, state)) = version else { continue };
        let key = format!("{name}/{version}");
        match serving.get_mut(&key) {
            Some(model) if !reason.is_empty() => model["why"] = reason.as_str().into(),
            None if others.len() < MAX_OTHERS => {
                let state = state.name().to_lowercase();
                others.insert(key, json!({ "name": &**name, "version": &**version, "state": state, "why": reason }));
            }
            _ => {}
        }
    }
    Value::Object(others)
}

/// Records by their numbers, so that only new and changed ones are sent.
fn keyed<T>(records: &[T], describe: fn(&T) -> (u64, Value)) -> Value {
    Value::Object(records.iter().map(describe).map(|(serial, value)| (serial.to_string(), value)).collect())
}

fn error(record: &ErrorRecord) -> (u64, Value) {
    let (model, version) = names(record.model.as_deref());
    let described = json!({
        "time": unix_ms(record.time, Duration::ZERO),
        "count": record.count,
        "model": model,
        "version": version,
        "kind": record.kind.name(),
        "protocol": record.protocol,
        "status": record.status,
        "id": record.id,
        "message": record.error.message(),
        "traceback": record.error.traceback().map(|traceback| traceback.as_str()),
    });
    (record.serial, described)
}

fn request(record: &RequestRecord) -> (u64, Value) {
    let (model, version) = names(record.model.as_deref());
    let ms = |duration: Duration| rounded(duration.as_secs_f64() * 1e3);
    let described = json!({
        "time": unix_ms(record.time, Duration::ZERO),
        "model": model,
        "version": version,
        "protocol": record.protocol,
        "id": record.id,
        "status": record.status,
        "outcome": record.outcome,
        "ms": ms(record.duration),
        "queue": ms(record.timings.queue),
        "handler": ms(record.timings.compute),
        "rows": record.timings.batch_rows,
    });
    (record.serial, described)
}

fn names(spec: Option<&ModelSpec>) -> (Option<&str>, Option<&str>) {
    spec.map_or((None, None), |spec| (Some(&*spec.name), Some(&*spec.version)))
}
