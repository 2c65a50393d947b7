//! Figures of one model: counts of some seconds, from differences of its totals.

use super::processes::Processes;
use penstock_core::{
    Kind, Model, Readiness,
    batch::policy::Reason,
    metrics::{Distribution, MetricTotals},
    queue::{InstancePhase, InstanceReport},
    statistics::Total,
};
use serde_json::{Map, Value, json};
use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Seconds that percentiles, times and batches cover; rates of requests cover one.
const WINDOW: usize = 10;

/// Instances that are listed.
const MAX_INSTANCES: usize = 64;

/// The last readings of a model, oldest first.
#[derive(Debug, Default)]
pub(super) struct Window(VecDeque<Reading>);

/// Totals at one moment.
#[derive(Debug)]
struct Reading {
    at: Instant,
    totals: MetricTotals,
    latency: Distribution,
    sizes: Distribution,
    encode: Distribution,
}

impl Reading {
    fn of(model: &Model) -> Self {
        let metrics = model.metrics();
        Self {
            at: Instant::now(),
            totals: metrics.totals(),
            latency: metrics.latency.distribution(),
            sizes: metrics.batch_size.distribution(),
            encode: metrics.encode.distribution(),
        }
    }

    fn requests(&self) -> u64 {
        self.totals.successes + self.totals.failures.iter().sum::<u64>()
    }

    fn seconds_since(&self, earlier: &Self) -> f64 {
        self.at.duration_since(earlier.at).as_secs_f64().max(1e-3)
    }
}

impl Window {
    /// Reads a model, and returns its figures.
    pub(super) fn describe(&mut self, model: &Model, processes: &mut Processes) -> Value {
        if self.0.len() > WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(Reading::of(model));
        let (first, last) = (&self.0[0], &self.0[self.0.len() - 1]);
        let before = &self.0[self.0.len().saturating_sub(2)];
        let (spec, metrics, load) = (model.spec(), model.metrics(), model.queue().load());
        let (seconds, latency) = (last.seconds_since(first), last.latency.since(&first.latency));
        let percentile = |share| milliseconds(latency.quantile(metrics.latency.bounds(), share));
        let gained = |of: fn(&MetricTotals) -> f64| rounded((of(&last.totals) - of(&first.totals)).max(0.0) / seconds);
        json!({
            "name": &*spec.name,
            "version": &*spec.version,
            "state": match model.readiness() {
                Readiness::Ready => "ready",
                Readiness::Loading => "loading",
                Readiness::Unavailable => "unavailable",
            },
            "requests": last.requests(),
            "rate": rounded((last.requests().saturating_sub(before.requests())) as f64 / last.seconds_since(before)),
            "p50": percentile(0.5),
            "p99": percentile(0.99),
            "errors": errors(first, last),
            "queue": {
                "requests": load.waiting.requests,
                "rows": load.waiting.rows,
                "bytes": load.waiting.bytes,
                "max_requests": load.bounds.requests,
                "max_rows": load.bounds.rows,
                "max_bytes": load.bounds.bytes,
            },
            "in_flight": metrics.in_flight.get(),
            "abandoned": metrics.abandoned.get(),
            "batches": batches(first, last, load.max_size),
            "time": times(first, last),
            "handler": gained(|totals| totals.handler),
            "gil": gained(|totals| totals.gil_held),
            "wasted": gained(|totals| totals.wasted),
            "tokens": last.totals.completion_tokens.map(|_| gained(tokens)),
            "instances": instances(&model.queue().instance_reports(), processes),
        })
    }
}

/// Recorded tokens that were generated.
fn tokens(totals: &MetricTotals) -> f64 {
    totals.completion_tokens.unwrap_or_default() as f64
}

/// Failed requests by kind: all, and those a second.
fn errors(first: &Reading, last: &Reading) -> Value {
    let seconds = last.seconds_since(first);
    let counts = Kind::ALL.into_iter().zip(last.totals.failures).zip(first.totals.failures);
    let kinds = counts.filter(|((_, now), _)| *now > 0).map(|((kind, now), before)| {
        (kind.name().to_owned(), json!([now, rounded(now.saturating_sub(before) as f64 / seconds)]))
    });
    Value::Object(kinds.collect())
}

/// Batches of the window: rate, mean rows, counts by size and by the reason for their cut.
fn batches(first: &Reading, last: &Reading, max_size: usize) -> Value {
    let sizes = last.sizes.since(&first.sizes);
    let counts = Reason::ALL.into_iter().zip(last.totals.reasons).zip(first.totals.reasons);
    let reasons: Map<String, Value> = counts
        .map(|((reason, now), before)| (reason.name().to_owned(), now.saturating_sub(before)))
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name, count.into()))
        .collect();
    json!({
        "rate": rounded(sizes.count() as f64 / last.seconds_since(first)),
        "mean": sizes.mean().map(rounded),
        "max": max_size,
        "sizes": sizes.counts,
        "reasons": reasons,
    })
}

/// Mean milliseconds of a request's parts: queue, interpreter wait, handler, encoding; `null` without requests.
fn times(first: &Reading, last: &Reading) -> Value {
    let mean = |of: fn(&MetricTotals) -> Total| {
        let (now, before) = (of(&last.totals), of(&first.totals));
        let count = now.count.saturating_sub(before.count);
        (count > 0).then(|| now.ns.saturating_sub(before.ns) as f64 / count as f64 / 1e9)
    };
    let encode = last.encode.since(&first.encode).mean();
    let output = mean(|totals| totals.compute.output);
    let encode = output.map(|output| output + encode.unwrap_or_default());
    json!([
        milliseconds(mean(|totals| totals.queue)),
        milliseconds(mean(|totals| totals.compute.input)),
        milliseconds(mean(|totals| totals.compute.infer)),
        milliseconds(encode),
    ])
}

/// Instances by number. Times are absolute, so that they change only with the state.
fn instances(reports: &[InstanceReport], processes: &mut Processes) -> Value {
    let now = SystemTime::now();
    let listed = reports.iter().take(MAX_INSTANCES).enumerate();
    let described = listed.map(|(index, report)| {
        let state = match report.phase {
            InstancePhase::Loading => "loading",
            InstancePhase::Serving if report.running > 0 => "busy",
            InstancePhase::Serving => "idle",
            InstancePhase::BackingOff => "backing off",
            InstancePhase::Ended => "ended",
        };
        let has_run = report.batches > 0 || report.running > 0;
        let process = &report.process;
        let usage = process.id.and_then(|id| processes.read(id));
        let described = json!({
            "state": state,
            "running": report.running,
            "rows": report.rows,
            "since": has_run.then(|| unix_ms(now, report.since)),
            "batches": report.batches,
            "pid": process.id,
            "loaded": process.loaded.map(|loaded| unix_ms(now, loaded.elapsed())),
            "rss": usage.map(|(usage, _)| usage.rss),
            "cpu": usage.and_then(|(_, cpu)| cpu).map(rounded),
            "restarts": process.restarts,
            "reason": process.reason,
        });
        (index.to_string(), described)
    });
    Value::Object(described.collect())
}

/// Returns the moment `ago` in milliseconds since 1970, in steps of a tenth of a second.
pub(super) fn unix_ms(now: SystemTime, ago: Duration) -> u64 {
    let time = now.checked_sub(ago).unwrap_or(now).duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis() / 100 * 100).unwrap_or(u64::MAX)
}

/// Seconds as milliseconds of three digits.
fn milliseconds(seconds: Option<f64>) -> Option<f64> {
    seconds.map(|seconds| rounded(seconds * 1e3))
}

/// Rounds to three significant digits, so that small changes are not sent.
pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in
            [(0.0, "0.0"), (1.0 / 3.0, "0.333"), (12345.6, "12300.0"), (99.96, "100.0"), (2.5e-7, "2.5e-7")]
        {
            assert_eq!(format!("{:?}", rounded(value)), text);
        }
    }
}
