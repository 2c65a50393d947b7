//! The seam to whatever computes: a batch as a value, answered exactly once.

use super::trace::BatchTrace;
use crate::{
    Error, InferRequest, InferResponse, InterpreterTimes, Kind, ModelSpec, Outputs, Parameters, Part, Reply,
    RequestOutput, Result, RowFailures, SequenceId, Timings,
    batch::{gather::scatter_padded, policy::Reason},
    metrics::ModelMetrics,
    queue::{Answered, CutBatch, Queue, ResourceGuard},
    reply::Deliveries,
};
use std::{
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

/// What a handler made of a batch.
#[derive(Debug, Default)]
pub struct BatchOutput {
    /// The outputs in declaration order, for all rows.
    pub outputs: Outputs,
    /// The rows that failed alone. What `outputs` has in their places is ignored; if all failed, it may be empty.
    pub failed: RowFailures,
    /// The outputs of each request by itself, or why it failed, in place of `outputs`.
    pub per_request: Option<Vec<Result<RequestOutput>>>,
    /// Parameters for every caller's answer.
    pub parameters: Parameters,
    /// Where the time at the interpreter went.
    pub times: InterpreterTimes,
}

/// A batch on its way through an executor: a thread, a process, or a closure in a test.
///
/// [`Job::finish`] answers every caller. A job that is dropped instead, by a panic say, answers them
/// with an internal error, and its instance counts as free again.
#[must_use = "a job that is dropped fails its callers"]
#[derive(Debug)]
pub struct Job {
    pub(super) queue: Arc<Queue>,
    pub(super) lane: usize,
    /// The sequences of its requests; empty for a model without them.
    pub(super) steps: Vec<SequenceId>,
    pub(super) parts: Vec<Part>,
    pub(super) rows: usize,
    /// The most rows that it may have.
    pub(super) max_rows: usize,
    pub(super) reason: Reason,
    /// How long the one of its requests had waited that waited longest.
    pub(super) waited: Duration,
    /// What it costs, where rows have a cost.
    pub(super) cost: Option<u64>,
    /// What it holds of the server's resources.
    pub(super) guard: Option<ResourceGuard>,
    pub(super) cut_at: Instant,
    /// Whether others wait for it to begin.
    pub(super) entering: bool,
    pub(super) answered: bool,
    pub(super) trace: Option<Box<BatchTrace>>,
}

impl Job {
    pub(super) fn new(batch: CutBatch) -> Self {
        let CutBatch { queue, lane, parts, reason, max_rows, cost, guard, entering } = batch;
        let rows = parts.iter().map(|part| part.request.rows).sum();
        let steps = match queue.spec().sequences {
            None => Vec::new(),
            Some(_) => parts.iter().filter_map(|part| Some(part.request.schedule.step.as_ref()?.id.clone())).collect(),
        };
        let max_rows = queue.spec().max_batch_size().min(max_rows);
        let waited = parts.iter().map(|part| part.waited).max().unwrap_or_default();
        let (trace, cut_at) = (BatchTrace::of(&parts), Instant::now());
        Self {
            queue,
            lane,
            steps,
            parts,
            rows,
            max_rows,
            reason,
            waited,
            cost,
            guard,
            cut_at,
            entering,
            answered: false,
            trace,
        }
    }

    /// Its instance has all that it waited for: it begins now.
    pub fn entered(&mut self) {
        if std::mem::take(&mut self.entering) {
            self.queue.entered(self.lane);
        }
    }

    /// A batch that was cut in another process, to be computed in this one. `queue` is that model's here.
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
            lane,
            parts,
            reason,
            max_rows: usize::MAX,
            cost: None,
            guard: None,
            entering: false,
        })
    }

    /// The model's declaration.
    pub fn spec(&self) -> &Arc<ModelSpec> {
        self.queue.spec()
    }

    /// The model's metrics.
    pub fn metrics(&self) -> &Arc<ModelMetrics> {
        self.queue.metrics()
    }

    /// The requests, in the order of their rows.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Has `waker` woken when a caller leaves, and when a caller of a full stream has read from it.
    pub fn watch(&self, waker: &Waker) {
        self.parts.iter().for_each(|part| part.reply.watch(waker));
    }

    /// Whether any caller still waits for its answer.
    pub fn is_wanted(&self) -> bool {
        self.parts.iter().any(|part| !part.reply.is_abandoned())
    }

    /// Rows in the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Why it was cut.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The requests, to move what the handler wants of them.
    pub fn parts_mut(&mut self) -> &mut [Part] {
        &mut self.parts
    }

    /// Answers every caller.
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
        // The policy must know of the answer before the first caller can come back.
        self.free(rows.len(), duration);
        let mut deliveries = Deliveries::default();
        match result {
            Err(error) => parts.into_iter().for_each(|part| deliveries.push(part.reply, Err(error.clone()))),
            Ok(BatchOutput { per_request: Some(apart), parameters, .. }) => {
                for (part, own) in parts.into_iter().zip(apart) {
                    let timings = Timings { queue: part.waited, compute: duration, batch_rows: self.rows };
                    deliveries.push(part.reply, own.map(|own| own.response(&parameters, timings)));
                }
            }
            Ok(BatchOutput { outputs, failed, parameters, .. }) => {
                let mut first = 0;
                for (part, outputs) in parts.into_iter().zip(scatter_padded(outputs, rows, padded, takes)) {
                    let timings = Timings { queue: part.waited, compute: duration, batch_rows: self.rows };
                    let answer = failed.for_request(first, &part.request);
                    first += part.request.rows;
                    let parameters = parameters.clone();
                    deliveries.push(
                        part.reply,
                        answer.map_or(Ok(InferResponse { outputs, parameters, timings, head: None }), Err),
                    );
                }
            }
        }
        deliveries.send();
    }

    /// Ends a batch whose answers went out before: its instance is free again.
    pub(crate) fn conclude(&mut self, result: &Result<InterpreterTimes>) {
        let times = result.as_ref().ok().copied();
        self.record(result.as_ref().copied());
        self.observe(times, &RowFailures::default());
        self.answered = true;
        let duration = times.map_or_else(|| self.cut_at.elapsed(), |times| times.handler);
        self.free(self.parts.len(), duration);
    }

    /// Tells the queue that the instance is free, and the sequences too.
    fn free(&mut self, requests: usize, duration: Duration) {
        self.entered();
        let Self { lane, rows, cost, reason, waited, ref steps, .. } = *self;
        self.queue.answered(&Answered { lane, requests, rows, cost, duration, reason, waited, steps });
        self.guard = None;
    }

    /// How long before `now` it was cut.
    pub(crate) fn running_until(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.cut_at)
    }

    /// What callers are told whose batch was dropped.
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
