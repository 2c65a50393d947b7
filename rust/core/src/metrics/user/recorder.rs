//! Recorder of a model: applies updates of the metrics that its handlers define.

use super::{Change, DEFAULT_BUCKETS, Labels, MAX_SERIES, MetricRejected, MetricUpdate, registry::UserRegistry};
use crate::{
    ModelSpec, TokenUsage,
    metrics::{
        Metrics, ModelMetrics,
        labels::{CustomLabels, ModelLabels, Seconds},
    },
};
use prometheus_client::metrics::family::Family;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Target of a model's updates.
#[derive(Debug)]
pub(in crate::metrics) struct Recorder {
    custom: Family<CustomLabels, Seconds>,
    registry: Arc<UserRegistry>,
    /// Declared bucket bounds of histograms.
    buckets: Arc<[(String, Vec<f64>)]>,
    /// A rejected update was logged.
    logged: AtomicBool,
    /// In a worker process: updates to send to the server.
    buffer: Option<Mutex<Buffer>>,
}

/// Updates for the server.
#[derive(Debug, Default)]
struct Buffer {
    /// Changes by metric: whether it is one of `penstock_custom_total`, its name, and its labels.
    changes: HashMap<(bool, String, Labels), Change>,
    /// Tokens of requests.
    tokens: Vec<TokenUsage>,
}

impl Recorder {
    pub(in crate::metrics) fn new(
        custom: Family<CustomLabels, Seconds>,
        registry: Arc<UserRegistry>,
        buckets: Arc<[(String, Vec<f64>)]>,
    ) -> Self {
        Self { custom, registry, buckets, logged: AtomicBool::new(false), buffer: None }
    }

    fn custom(&self, labels: &ModelLabels, name: &str, value: f64) -> Result<(), MetricRejected> {
        let ModelLabels { model, version } = labels.clone();
        let labels = CustomLabels { model, version, name: name.to_owned() };
        if let Some(counter) = self.custom.get(&labels) {
            counter.inc_by(value);
            return Ok(());
        }
        if !self.registry.reserve((&labels.model, &labels.version)) {
            return Err(MetricRejected::Full);
        }
        self.custom.get_or_create(&labels).inc_by(value);
        Ok(())
    }
}

impl ModelMetrics {
    /// Metrics of a worker process: updates are buffered, to be sent to the server.
    pub fn buffered(spec: &ModelSpec) -> Self {
        let mut metrics = Metrics::default().model(spec);
        metrics.recorder.buffer = Some(Mutex::default());
        metrics
    }

    /// Takes the buffered updates.
    pub fn take_buffered(&self) -> Vec<MetricUpdate> {
        let Some(buffer) = &self.recorder.buffer else { return Vec::new() };
        let Buffer { changes, tokens } = std::mem::take(&mut *buffer.lock().unwrap_or_else(PoisonError::into_inner));
        let changes = changes.into_iter().map(|((_, name, labels), change)| MetricUpdate { name, labels, change });
        changes.chain(tokens.into_iter().map(MetricUpdate::tokens)).collect()
    }

    /// Bucket bounds of a histogram.
    pub fn buckets(&self, name: &str) -> &[f64] {
        let declared = self.recorder.buckets.iter().find(|(known, _)| known == name);
        declared.map_or(&DEFAULT_BUCKETS, |(_, bounds)| bounds)
    }

    /// Applies an update.
    ///
    /// # Errors
    /// Too many series, or the name belongs to a different metric.
    pub fn record(&self, update: MetricUpdate) -> Result<(), MetricRejected> {
        let recorder = &self.recorder;
        match &update.change {
            Change::Tokens(usage) => self.count_tokens(usage),
            &Change::Custom(value) => recorder.custom(&self.labels, &update.name, value)?,
            _ => {
                let owner = (self.labels.model.as_str(), self.labels.version.as_str());
                recorder.registry.record(owner, &update, self.buckets(&update.name))?;
            }
        }
        if let Some(buffer) = &recorder.buffer {
            note(&mut buffer.lock().unwrap_or_else(PoisonError::into_inner), update);
        }
        Ok(())
    }

    /// Log line for a rejected update; `None` after the first one, because each call may repeat it.
    pub fn log_line(&self, rejected: &MetricRejected) -> Option<String> {
        let logged = self.recorder.logged.swap(true, Ordering::Relaxed);
        (!logged).then(|| match rejected {
            MetricRejected::Wrong(text) => format!("{text}; the update is dropped"),
            MetricRejected::Full => {
                format!("its handlers have the maximum of {MAX_SERIES} series of metrics: further series are dropped")
            }
        })
    }
}

fn note(buffer: &mut Buffer, update: MetricUpdate) {
    let MetricUpdate { name, labels, change } = update;
    if let Change::Tokens(usage) = change {
        return buffer.tokens.push(usage);
    }
    match buffer.changes.entry((matches!(change, Change::Custom(_)), name, labels)) {
        Entry::Vacant(place) => drop(place.insert(change)),
        Entry::Occupied(mut place) => match (place.get_mut(), change) {
            (Change::Add(sum), Change::Add(more)) | (Change::Custom(sum), Change::Custom(more)) => *sum += more,
            (Change::Observe(seen), Change::Observe(more)) => seen.add(&more),
            (before, change) => *before = change,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Observations;

    fn spec(version: &str, buckets: &[f64]) -> ModelSpec {
        let buckets = Arc::new([("h".to_owned(), buckets.to_vec())]);
        ModelSpec { name: "m".into(), version: version.into(), buckets, ..ModelSpec::default() }
    }

    fn labels(value: &str) -> Labels {
        vec![("kind".to_owned(), value.to_owned())]
    }

    #[test]
    fn metric_updates_buffered_in_one_process_apply_in_another() {
        let spec = spec("1", &[1.0]);
        let (sender, metrics) = (ModelMetrics::buffered(&spec), Metrics::default());
        let receiver = metrics.model(&spec);
        for value in [1.0, 2.0] {
            sender.record(MetricUpdate::counter("c", value, labels("a")).unwrap()).unwrap();
            sender.record(MetricUpdate::gauge("g", value, Labels::new()).unwrap()).unwrap();
            sender.record(MetricUpdate::histogram("h", &[value], Labels::new(), sender.buckets("h")).unwrap()).unwrap();
            sender
                .record(MetricUpdate { name: "c".to_owned(), labels: Labels::new(), change: Change::Custom(value) })
                .unwrap();
        }
        let buffer = sender.take_buffered();
        assert_eq!((buffer.len(), sender.take_buffered().len()), (4, 0));
        buffer.into_iter().for_each(|update| receiver.record(update).unwrap());
        let text = metrics.exposition();
        for line in [
            "c_total{model=\"m\",version=\"1\",kind=\"a\"} 3.0\n",
            "g{model=\"m\",version=\"1\"} 2.0\n",
            "h_bucket{le=\"1.0\",model=\"m\",version=\"1\"} 1\n",
            "h_bucket{le=\"+Inf\",model=\"m\",version=\"1\"} 2\n",
            "h_sum{model=\"m\",version=\"1\"} 3.0\n",
            "h_count{model=\"m\",version=\"1\"} 2\n",
            "penstock_custom_total{model=\"m\",version=\"1\",name=\"c\"} 3.0\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn series_are_bounded_per_version_and_logged_once() {
        let metrics = Metrics::default();
        let first = metrics.model(&spec("1", &[]));
        let counter = |value: usize| MetricUpdate::counter("c", 1.0, labels(&value.to_string())).unwrap();
        (1..MAX_SERIES).for_each(|value| first.record(counter(value)).unwrap());
        first
            .record(MetricUpdate { name: "x".to_owned(), labels: Labels::new(), change: Change::Custom(1.0) })
            .unwrap();
        let rejected = first.record(counter(MAX_SERIES)).unwrap_err();
        assert_eq!(rejected, MetricRejected::Full);
        let another = MetricUpdate { name: "y".to_owned(), labels: Labels::new(), change: Change::Custom(1.0) };
        assert_eq!(first.record(another), Err(MetricRejected::Full));
        assert!(first.log_line(&rejected).is_some_and(|line| line.contains("1000 series")));
        assert!(first.log_line(&rejected).is_none());
        // Existing series continue, and another version has a separate limit.
        first.record(counter(1)).unwrap();
        metrics.model(&spec("2", &[])).record(counter(1)).unwrap();
        let text = metrics.exposition();
        assert!(text.contains("c_total{model=\"m\",version=\"1\",kind=\"1\"} 2.0\n"));
        assert!(text.contains("c_total{model=\"m\",version=\"2\",kind=\"1\"} 1.0\n"));
    }

    #[test]
    fn metric_name_has_one_type() {
        let metrics = Metrics::default().model(&spec("1", &[1.0]));
        metrics.record(MetricUpdate::counter("c", 1.0, Labels::new()).unwrap()).unwrap();
        metrics.record(MetricUpdate::histogram("h", &[1.0], Labels::new(), &[1.0]).unwrap()).unwrap();
        let wrong = |name: &str| match metrics.record(MetricUpdate::gauge(name, 1.0, Labels::new()).unwrap()) {
            Err(MetricRejected::Wrong(text)) => text,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(wrong("c"), "metric 'c' is a counter, so it cannot be a gauge");
        for name in ["c_total", "h_count", "h_bucket"] {
            assert!(wrong(name).contains("would show one name twice"), "{name}");
        }
        let other = Change::Observe(Observations { counts: vec![1], sum: 1.0 });
        let other = MetricUpdate { name: "h".to_owned(), labels: Labels::new(), change: other };
        assert!(matches!(metrics.record(other), Err(MetricRejected::Wrong(_))));
    }

    #[test]
    fn reloaded_model_continues_its_counters() {
        let metrics = Metrics::default();
        for _ in 0..2 {
            let model = metrics.model(&spec("1", &[1.0]));
            model.record(MetricUpdate::counter("c", 1.0, Labels::new()).unwrap()).unwrap();
            model.record(MetricUpdate::histogram("h", &[1.0], Labels::new(), &[1.0]).unwrap()).unwrap();
        }
        let text = metrics.exposition();
        assert!(
            text.contains("c_total{model=\"m\",version=\"1\"} 2.0\n")
                && text.contains("h_count{model=\"m\",version=\"1\"} 2\n")
        );
        let other = metrics.model(&spec("1", &[5.0]));
        other.record(MetricUpdate::histogram("h", &[1.0], Labels::new(), &[5.0]).unwrap()).unwrap();
        assert!(metrics.exposition().contains("h_count{model=\"m\",version=\"1\"} 1\n"));
    }
}
