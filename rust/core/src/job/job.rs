//! A batch as a value, answered exactly once. Executors implement no trait: they take a job and finish it.

use super::trace::BatchTrace;
use crate::{
    Error, InferRequest, InferResponse, InterpreterTimes, Kind, ModelSpec, Outputs, Parameters, Part, Reply,
    RequestOutput, Result, RowFailures, SequenceId, Timings,
    batch::{gather::scatter_padded, policy::Reason},
    metrics::ModelMetrics,
    queue::{Answered, CutBatch, InstanceState, Queue, ResourceGuard},
    reply::Deliveries,
};
use std::{
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

/// Handler's result for a batch.
#[derive(Debug, Default)]
pub struct BatchOutput {
    /// Outputs in declaration order, for all rows.
    pub outputs: Outputs,
    /// Failed rows. `outputs` may hold anything in their places, and may be empty if all rows failed.
    pub failed: RowFailures,
    /// Results by request, in place of `outputs`.
    pub per_request: Option<Vec<Result<RequestOutput>>>,
    /// Parameters of all responses.
    pub parameters: Parameters,
    /// Durations around the GIL.
    pub times: InterpreterTimes,
}

/// A batch in an executor: a thread, a process, or a closure in a test.
///
/// [`Job::finish`] answers all requests. A job that is dropped without it, for example by a panic, fails them with an
/// internal error, and frees its instance.
#[must_use = "a job that is dropped fails its callers"]
#[derive(Debug)]
pub struct Job {
    pub(super) queue: Arc<Queue>,
    pub(super) instance: usize,
    pub(super) lane: usize,
    /// Sequences of the requests; empty for a model without sequences.
    pub(super) steps: Vec<SequenceId>,
    pub(super) parts: Vec<Part>,
    pub(super) rows: usize,
    /// Maximum rows.
    pub(super) max_rows: usize,
    pub(super) reason: Reason,
    /// Longest wait of the requests.
    pub(super) waited: Duration,
    /// Time for which the instance had no batch before this one.
    pub(super) idle: Duration,
    /// Cost, if rows have a cost.
    pub(super) cost: Option<u64>,
    /// Resources of the server that the batch holds.
    pub(super) guard: Option<ResourceGuard>,
    pub(super) cut_at: Instant,
    /// Other instances wait for the start of this batch.
    pub(super) entering: bool,
    pub(super) answered: bool,
    pub(super) trace: Option<Box<BatchTrace>>,
}

impl Job {
    pub(super) fn new(batch: CutBatch) -> Self {
        let CutBatch { queue, instance, lane, parts, reason, max_rows, cost, guard, entering, cut_ns } = batch;
        let rows = parts.iter().map(|part| part.request.rows).sum();
        let steps = match queue.spec().sequences {
            None => Vec::new(),
            Some(_) => parts.iter().filter_map(|part| Some(part.request.schedule.step.as_ref()?.id.clone())).collect(),
        };
        let max_rows = queue.spec().max_batch_size().min(max_rows);
        let waited = parts.iter().map(|part| part.waited).max().unwrap_or_default();
        let (trace, cut_at) = (BatchTrace::of(&parts), Instant::now());
        let idle = queue.begin_batch(instance, cut_ns, rows);
        Self {
            queue,
            instance,
            lane,
            steps,
            parts,
            rows,
            max_rows,
            reason,
            waited,
            idle,
            cost,
            guard,
            cut_at,
            entering,
            answered: false,
            trace,
        }
    }

    /// Reports that the batch begins: the instance has the GIL.
    pub fn entered(&mut self) {
        if std::mem::take(&mut self.entering) {
            self.queue.entered(self.lane);
        }
    }

    /// A batch that was cut in another process. `queue` is the model's queue in this one.
    pub fn from_remote(
        queue: Arc<Queue>,
        lane: usize,
        requests: impl IntoIterator<Item = (InferRequest, Reply)>,
    ) -> Self {
        let part = |(request, reply)| Part { request, reply, waited: Duration::ZERO };
        let parts = requests.into_iter().map(part).collect();
        let reason = Reason::Idle;
        Self::new(CutBatch {
            queue,
            instance: 0,
            lane,
            parts,
            reason,
            max_rows: usize::MAX,
            cost: None,
            guard: None,
            entering: false,
            cut_ns: 0,
        })
    }

    /// Declaration of the model.
    pub fn spec(&self) -> &Arc<ModelSpec> {
        self.queue.spec()
    }

    /// Metrics of the model.
    pub fn metrics(&self) -> &Arc<ModelMetrics> {
        self.queue.metrics()
    }

    /// Requests, in the order of their rows.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Wakes `waker` when a client abandons its request, and when a full stream has room again.
    pub fn watch(&self, waker: &Waker) {
        self.parts.iter().for_each(|part| part.reply.watch(waker));
    }

    /// Returns true if any client still waits.
    pub fn is_wanted(&self) -> bool {
        self.parts.iter().any(|part| !part.reply.is_abandoned())
    }

    /// Rows without padding.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Reason for the cut.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Requests, for handlers that move their data out.
    pub fn parts_mut(&mut self) -> &mut [Part] {
        &mut self.parts
    }

    /// Answers all requests.
    pub fn finish(mut self, result: Result<BatchOutput>) {
        let result = match result {
            Err(error) if error.is_batch_too_large() => match self.retry_smaller(error) {
                Some(error) => Err(error),
                None => return,
            },
            result => result,
        };
        let result = result.and_then(|output| self.checked(output));
        match &result {
            Ok(output) => self.observe(Some(output.times), &output.failed),
            Err(_) => self.observe(None, &RowFailures::default()),
        }
        self.record(result.as_ref().map(|output| output.times));
        let parts = std::mem::take(&mut self.parts);
        self.answered = true;
        let rows: Vec<usize> = parts.iter().map(|part| part.request.rows).collect();
        let takes = matches!(&parts[..], [only] if only.request.takes_ownership);
        let padded = self.padded();
        let duration = result.as_ref().map_or_else(|_| self.cut_at.elapsed(), |output| output.times.handler);
        // The policy must know of the batch before the first client can send its next request.
        self.free(rows.len(), duration);
        let mut deliveries = Deliveries::default();
        match result {
            Err(error) => parts.into_iter().for_each(|part| deliveries.push(part.reply, Err(error.clone()))),
            Ok(BatchOutput { per_request: Some(results), parameters, .. }) => {
                for (part, own) in parts.into_iter().zip(results) {
                    let timings = self.timings(&part, duration);
                    deliveries.push(part.reply, own.map(|own| own.response(&parameters, timings)));
                }
            }
            Ok(BatchOutput { outputs, failed, parameters, .. }) => {
                let mut first = 0;
                for (part, outputs) in parts.into_iter().zip(scatter_padded(outputs, rows, padded, takes)) {
                    let timings = self.timings(&part, duration);
                    let error = failed.for_request(first, &part.request);
                    first += part.request.rows;
                    let parameters = parameters.clone();
                    deliveries.push(
                        part.reply,
                        error.map_or(Ok(InferResponse { outputs, parameters, timings, head: None }), Err),
                    );
                }
            }
        }
        deliveries.send();
    }

    /// Timings of one request.
    pub(super) fn timings(&self, part: &Part, compute: Duration) -> Timings {
        let batch_wait = part.waited.min(self.idle);
        Timings {
            queue: part.waited,
            batch_wait,
            gathered: self.reason != Reason::Idle,
            compute,
            batch_rows: self.rows,
        }
    }

    /// Ends a batch whose responses were sent as a stream.
    pub(crate) fn conclude(&mut self, result: &Result<InterpreterTimes>) {
        let times = result.as_ref().ok().copied();
        self.record(result.as_ref().copied());
        self.observe(times, &RowFailures::default());
        self.answered = true;
        let duration = times.map_or_else(|| self.cut_at.elapsed(), |times| times.handler);
        self.free(self.parts.len(), duration);
    }

    /// Ends a request of an iterative model: `times` are those of its steps, `share` its part of them.
    pub(super) fn conclude_row(&mut self, failure: Option<&Error>, times: InterpreterTimes, share: Duration) {
        self.record(failure.map_or(Ok(times), Err));
        self.observe_left(times, share, failure.is_some());
        self.answered = true;
        self.free(self.parts.len(), times.handler);
    }

    /// Frees the instance, the resources and the sequences.
    fn free(&mut self, requests: usize, duration: Duration) {
        self.entered();
        let Self { instance, lane, rows, cost, reason, waited, ref steps, .. } = *self;
        self.queue.answered(&Answered { instance, lane, requests, rows, cost, duration, reason, waited, steps });
        self.guard = None;
    }

    /// State of the instance that computes it.
    pub(crate) fn instance_state(&self) -> &InstanceState {
        self.queue.instance(self.instance)
    }

    /// Time of the cut.
    pub fn cut_at(&self) -> Instant {
        self.cut_at
    }

    /// Time from the cut to `now`.
    pub(crate) fn running_until(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.cut_at)
    }

    /// Error for the requests of a dropped job.
    pub(crate) fn lost_error(&self) -> Error {
        Error::new(Kind::Internal, format!("model '{}' lost this batch", self.spec().name))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        self.free(self.parts.len(), self.cut_at.elapsed());
        let error = self.lost_error();
        for part in self.parts.drain(..) {
            part.reply.send(Err(error.clone()));
        }
    }
}
