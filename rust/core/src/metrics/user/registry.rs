//! Registry of the metrics that handlers define. They are created at the first update, up to a limit.

use super::{Change, Labels, MetricUpdate, Observations};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Maximum series of one model version.
pub const MAX_SERIES: usize = 1000;

/// Rejected update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricRejected {
    /// It contradicts the metric of that name; a message.
    Wrong(String),
    /// Too many series.
    Full,
}

/// Name and version of a model.
pub(in crate::metrics) type Owner<'a> = (&'a str, &'a str);

/// Metrics that handlers define, of all models.
#[derive(Debug, Default)]
pub(in crate::metrics) struct UserRegistry(Mutex<Families>);

#[derive(Debug, Default)]
struct Families {
    by_name: BTreeMap<String, Family>,
    /// Number of series of each model version.
    sizes: HashMap<(String, String), usize>,
}

#[derive(Debug)]
struct Family {
    kind: MetricKind,
    /// Values by labels, model and version first.
    series: BTreeMap<Labels, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug)]
enum Value {
    Number(f64),
    Histogram { bounds: Vec<f64>, seen: Observations },
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

impl MetricKind {
    /// Suffixes that the text form adds to the name.
    const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["", "_total", "_created"],
            Self::Gauge => &[""],
            Self::Histogram => &["", "_bucket", "_count", "_sum", "_created"],
        }
    }

    fn clashes(self, name: &str, other: &str, others: Self) -> bool {
        let same = |own: &&str, suffix: &&str| {
            name.len() + own.len() == other.len() + suffix.len()
                && name.bytes().chain(own.bytes()).eq(other.bytes().chain(suffix.bytes()))
        };
        self.suffixes().iter().any(|own| others.suffixes().iter().any(|suffix| same(own, suffix)))
    }
}

impl UserRegistry {
    /// Applies an update. `bounds` are a histogram's buckets.
    ///
    /// # Errors
    /// It was rejected.
    pub(in crate::metrics) fn record(
        &self,
        owner: Owner<'_>,
        update: &MetricUpdate,
        bounds: &[f64],
    ) -> Result<(), MetricRejected> {
        let kind = match &update.change {
            Change::Custom(_) | Change::Tokens(_) => {
                return Err(MetricRejected::Wrong("it is not a metric of its own".to_owned()));
            }
            Change::Add(_) => MetricKind::Counter,
            Change::Set(_) => MetricKind::Gauge,
            Change::Observe(seen) if seen.counts.len() == bounds.len() + 1 => MetricKind::Histogram,
            Change::Observe(_) => {
                return Err(MetricRejected::Wrong(format!("histogram '{}' has other buckets", update.name)));
            }
        };
        let mut labels = vec![("model".to_owned(), owner.0.to_owned()), ("version".to_owned(), owner.1.to_owned())];
        labels.extend(update.labels.iter().cloned());
        let mut families = self.lock();
        let Families { by_name, sizes } = &mut *families;
        check_kind(by_name, &update.name, kind).map_err(MetricRejected::Wrong)?;
        let known = by_name.get(&update.name).is_some_and(|family| family.series.contains_key(&labels));
        if !known && !claim(sizes, owner) {
            return Err(MetricRejected::Full);
        }
        let new = || Family { kind, series: BTreeMap::new() };
        let family = by_name.entry(update.name.clone()).or_insert_with(new);
        change(family.series.entry(labels), &update.change, bounds);
        Ok(())
    }

    /// Reserves a series that is stored elsewhere. Returns false if there is no room.
    pub(in crate::metrics) fn reserve(&self, owner: Owner<'_>) -> bool {
        claim(&mut self.lock().sizes, owner)
    }

    fn lock(&self) -> MutexGuard<'_, Families> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_kind(families: &BTreeMap<String, Family>, name: &str, kind: MetricKind) -> Result<(), String> {
    if let Some(family) = families.get(name) {
        let is = family.kind;
        return if is == kind { Ok(()) } else { Err(format!("metric '{name}' is a {is}, so it cannot be a {kind}")) };
    }
    let clash = families.iter().find(|(other, family)| kind.clashes(name, other, family.kind));
    clash.map_or(Ok(()), |(other, family)| {
        let others = family.kind;
        Err(format!("{kind} '{name}' and {others} '{other}' would show one name twice: give one of them another"))
    })
}

fn claim(sizes: &mut HashMap<(String, String), usize>, (model, version): Owner<'_>) -> bool {
    let size = sizes.entry((model.to_owned(), version.to_owned())).or_default();
    if *size >= MAX_SERIES {
        return false;
    }
    *size += 1;
    true
}

fn change(series: Entry<'_, Labels, Value>, change: &Change, bounds: &[f64]) {
    match change {
        // They are not metrics of a handler's own.
        Change::Tokens(_) => {}
        Change::Custom(more) | Change::Add(more) => {
            let Value::Number(sum) = series.or_insert(Value::Number(0.0)) else { return };
            *sum += more;
        }
        Change::Set(value) => {
            let Value::Number(now) = series.or_insert(Value::Number(0.0)) else { return };
            *now = *value;
        }
        Change::Observe(more) => {
            let new = || Value::Histogram {
                bounds: bounds.to_vec(),
                seen: Observations { counts: vec![0; bounds.len() + 1], sum: 0.0 },
            };
            let value = series.or_insert_with(new);
            // A reloaded model may declare other buckets: the histogram restarts.
            if matches!(value, Value::Histogram { bounds: old, .. } if old != bounds) {
                *value = new();
            }
            if let Value::Histogram { seen, .. } = value {
                seen.add(more);
            }
        }
    }
}

impl Collector for UserRegistry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, family) in &self.lock().by_name {
            let (kind, help) = match family.kind {
                MetricKind::Counter => (MetricType::Counter, "Counter of a handler."),
                MetricKind::Gauge => (MetricType::Gauge, "Gauge of a handler."),
                MetricKind::Histogram => (MetricType::Histogram, "Histogram of a handler."),
            };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, value) in &family.series {
                let mut metric = metric.encode_family(labels)?;
                match value {
                    Value::Number(value) if family.kind == MetricKind::Counter => {
                        ConstCounter::new(*value).encode(metric)?;
                    }
                    Value::Number(value) => ConstGauge::new(*value).encode(metric)?,
                    Value::Histogram { bounds, seen } => {
                        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
                        let buckets: Vec<_> = bounds.zip(seen.counts.iter().copied()).collect();
                        let count = seen.counts.iter().sum();
                        metric.encode_histogram::<Labels>(seen.sum, count, &buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}
