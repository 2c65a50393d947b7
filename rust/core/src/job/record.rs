//! Metrics and statistics of a batch.

use super::Job;
use crate::{InterpreterTimes, Part, RowFailures, metrics::statistics::Ended, reply::Channel};
use std::time::Duration;

impl Job {
    pub(super) fn observe(&self, times: Option<InterpreterTimes>, failed: &RowFailures) {
        let (metrics, elapsed) = (self.metrics(), self.cut_at.elapsed());
        metrics.cut(self.reason, self.rows);
        for part in &self.parts {
            metrics.queue.observe(part.waited.as_secs_f64());
        }
        if let Some(times) = times {
            let own = times.handler + times.boundary;
            metrics.batch_wait.observe(elapsed.saturating_sub(own).as_secs_f64());
            metrics.compute.observe_traced(times.handler.as_secs_f64(), self.trace_id());
            metrics.interpreter(times);
        }
        self.count_waste(times.map_or(elapsed, |times| times.handler));
        self.record_statistics(times, failed, elapsed);
    }

    /// Observes the end of a request of an iterative model, whose steps were observed as batches.
    pub(super) fn observe_left(&self, times: InterpreterTimes, share: Duration, failed: bool) {
        let is_left = self.parts.iter().all(has_left);
        self.count_waste(share);
        if !failed && !is_left {
            let (rows, waited, elapsed) = (self.rows, self.waited, self.cut_at.elapsed());
            let ended = Ended { rows, failed_rows: 0, requests: 1, waited, elapsed, times: Some(times) };
            self.metrics().statistics.left(&ended);
        }
    }

    /// Counts the time that was computed for abandoned requests.
    fn count_waste(&self, computed: Duration) {
        let rows: usize = self.parts.iter().filter(|part| has_left(part)).map(|part| part.request.rows).sum();
        if rows > 0 {
            self.metrics().wasted(computed.mul_f64(rows as f64 / self.rows as f64));
        }
    }

    /// Updates the protocol's statistics. Abandoned and failed requests are not counted.
    fn record_statistics(&self, times: Option<InterpreterTimes>, failed: &RowFailures, elapsed: Duration) {
        let (mut requests, mut waited, mut first, mut failed_rows) = (0, Duration::ZERO, 0, 0);
        for part in &self.parts {
            if failed.for_request(first, &part.request).is_some() {
                failed_rows += part.request.rows;
            } else if !part.reply.is_abandoned() {
                requests += 1;
                waited += part.waited;
            }
            first += part.request.rows;
        }
        let ended = Ended { rows: self.rows, failed_rows, requests, waited, elapsed, times };
        self.metrics().statistics.ended(&ended);
    }
}

/// A client that read the end of its stream abandoned nothing.
fn has_left(part: &Part) -> bool {
    part.reply.is_abandoned() && !part.reply.channel().is_some_and(Channel::has_ended)
}
