//! Metrics of streams: times, numbers and rates of their responses. They need no code of the model.

use super::{histogram::Histogram, labels::ModelLabels};
use prometheus_client::{metrics::family::Family, registry::Registry, registry::Unit};
use std::time::{Duration, Instant};

/// Metrics of the streams of all models.
#[derive(Debug)]
pub(super) struct StreamFamilies {
    first_response: Family<ModelLabels, Histogram>,
    response_gap: Family<ModelLabels, Histogram>,
    stream_responses: Family<ModelLabels, Histogram>,
    stream_responses_per_second: Family<ModelLabels, Histogram>,
}

/// Metrics of one model's streams.
#[derive(Clone, Debug)]
pub struct StreamMetrics {
    /// Seconds from a request's arrival to its first response.
    pub first_response: Histogram,
    /// Seconds between two responses of a stream, as the handler gave them.
    response_gap: Histogram,
    /// Responses of a stream.
    responses: Histogram,
    /// Responses a second, from the first to the last.
    rate: Histogram,
}

/// 1, 2, 5, 10 and so on to 100,000 responses.
fn counts() -> Histogram {
    Histogram::of_decades(0, 5)
}

/// 0.1 to 10,000 a second.
fn rates() -> Histogram {
    Histogram::of_decades(-1, 4)
}

impl Default for StreamFamilies {
    fn default() -> Self {
        Self {
            first_response: Family::new_with_constructor(Histogram::of_first_responses),
            response_gap: Family::new_with_constructor(Histogram::of_requests),
            stream_responses: Family::new_with_constructor(counts),
            stream_responses_per_second: Family::new_with_constructor(rates),
        }
    }
}

impl StreamFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "first_response",
            "Time from a request's arrival to the first response of its stream",
            Unit::Seconds,
            self.first_response.clone(),
        );
        registry.register_with_unit(
            "response_gap",
            "Time between two responses of a stream",
            Unit::Seconds,
            self.response_gap.clone(),
        );
        registry.register("stream_responses", "Responses of a stream", self.stream_responses.clone());
        registry.register(
            "stream_responses_per_second",
            "Responses of a stream by the time from the first to the last",
            self.stream_responses_per_second.clone(),
        );
    }

    pub(super) fn of(&self, labels: &ModelLabels) -> StreamMetrics {
        StreamMetrics {
            first_response: self.first_response.get_or_create(labels).clone(),
            response_gap: self.response_gap.get_or_create(labels).clone(),
            responses: self.stream_responses.get_or_create(labels).clone(),
            rate: self.stream_responses_per_second.get_or_create(labels).clone(),
        }
    }
}

/// Responses of one stream so far, as its client gets them.
#[derive(Debug, Default)]
pub struct StreamProgress {
    responses: u64,
    /// Time of the first response since the cut of its batch.
    first: Duration,
    /// Time of the last response since the cut of its batch.
    last: Duration,
    has_ended: bool,
}

impl StreamProgress {
    /// Records a response to a request that arrived at `started`. The handler gave it at `at` since the cut of its batch,
    /// so that gaps need no clock. Returns true for the first response.
    pub fn responded(&mut self, metrics: &StreamMetrics, started: Instant, at: Duration) -> bool {
        self.responses += 1;
        if self.responses == 1 {
            metrics.first_response.observe(started.elapsed().as_secs_f64());
            self.first = at;
        } else {
            metrics.response_gap.observe(at.saturating_sub(self.last).as_secs_f64());
        }
        self.last = at;
        self.responses == 1
    }

    /// Observes the number of responses and their rate, once. A stream that failed before its first response has none.
    pub fn end(&mut self, metrics: &StreamMetrics, has_failed: bool) {
        if std::mem::replace(&mut self.has_ended, true) || (has_failed && self.responses == 0) {
            return;
        }
        metrics.responses.observe(self.responses as f64);
        let seconds = self.last.saturating_sub(self.first).as_secs_f64();
        if self.responses > 1 && seconds > 0.0 {
            metrics.rate.observe((self.responses - 1) as f64 / seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(at: &[u64], has_failed: bool) -> StreamMetrics {
        let labels = ModelLabels { model: "m".to_owned(), version: "1".to_owned() };
        let (metrics, mut progress) = (StreamFamilies::default().of(&labels), StreamProgress::default());
        for (index, at) in at.iter().enumerate() {
            assert_eq!(progress.responded(&metrics, Instant::now(), Duration::from_millis(*at)), index == 0);
        }
        progress.end(&metrics, has_failed);
        progress.end(&metrics, has_failed);
        metrics
    }

    fn observed(histogram: &Histogram) -> (u64, f64) {
        let now = histogram.distribution();
        (now.count(), now.sum)
    }

    #[test]
    fn rate_is_of_the_responses_after_the_first() {
        let metrics = stream(&[100, 350, 600], false);
        assert_eq!((observed(&metrics.responses), observed(&metrics.rate)), ((1, 3.0), (1, 4.0)));
        assert_eq!(observed(&metrics.response_gap), (2, 0.5));
        assert_eq!(metrics.first_response.distribution().count(), 1);
    }

    #[test]
    fn streams_of_one_response_or_one_moment_have_no_rate() {
        for at in [&[5][..], &[5, 5]] {
            let metrics = stream(at, false);
            assert_eq!(observed(&metrics.responses), (1, at.len() as f64));
            assert_eq!(observed(&metrics.rate), (0, 0.0));
        }
    }

    #[test]
    fn failed_streams_count_with_what_they_gave() {
        assert_eq!(observed(&stream(&[1, 2], true).responses), (1, 2.0));
        assert_eq!(observed(&stream(&[], true).responses), (0, 0.0));
        assert_eq!(observed(&stream(&[], false).responses), (1, 0.0));
    }
}
