//! Rows of an iterative model's instance: they join and leave between two steps.
//!
//! Each request is a [`Job`], answered by a stream. The set decides which rows are in a step, and when one
//! leaves; the executor calls the handler.

use super::{Job, RowChunk, Streaming, row_waker::RowWaker};
use crate::{
    Error, InterpreterTimes, Kind, ModelSpec, Parameters, Result, SLOW_READER_TIMEOUT,
    batch::policy::Reason,
    queue::{InstanceState, Queue},
    reply::stalled,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Interval of checks of the queue while its next request has more rows than there is room for, and all rows wait.
const RECHECK: Duration = Duration::from_millis(100);

/// Rows of one instance, in the order in which they joined. `T` is what the executor keeps of a row.
#[derive(Debug)]
pub struct RowSet<T> {
    queue: Arc<Queue>,
    instance: usize,
    /// Requests with rows here, and free places.
    requests: Vec<Option<Request>>,
    rows: Vec<Row<T>>,
    /// Rows that have left, until the executor takes them.
    left: Vec<T>,
    changes: u64,
    waker: Arc<RowWaker>,
}

#[derive(Debug)]
struct Row<T> {
    /// Place of its request.
    request: usize,
    /// Index among the request's rows.
    index: usize,
    steps: u64,
    in_step: bool,
    /// It has been in a step, so the executor gets it when it leaves.
    seen: bool,
    payload: T,
}

#[derive(Debug)]
struct Request {
    streaming: Streaming,
    /// Time from which on its client has had no room.
    full_since: Option<Instant>,
    in_step: bool,
    /// Times of the steps with a row of it.
    times: InterpreterTimes,
    /// Its part of the handler's time.
    share: Duration,
}

impl<T> RowSet<T> {
    /// An empty set. The calling thread is the instance's.
    pub fn new(queue: Arc<Queue>, instance: usize) -> Self {
        let waker = RowWaker::new(Arc::clone(&queue), instance);
        Self { queue, instance, requests: Vec::new(), rows: Vec::new(), left: Vec::new(), changes: 0, waker }
    }

    /// Returns true without rows. The instance then waits in the queue.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A number that changes when rows join and leave.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Requests with rows here.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.requests.iter().flatten().map(|request| request.streaming.job())
    }

    /// Takes the waiting requests for whose rows there is room. Does not block.
    pub fn take_waiting(&self) -> Vec<Job> {
        self.queue.join(self.instance, self.room()).into_iter().map(Job::new).collect()
    }

    /// Lets a request join, with a payload for each of its rows.
    pub fn add(&mut self, mut job: Job, payloads: Vec<T>) {
        debug_assert_eq!(job.rows(), payloads.len());
        job.reason = Reason::Step;
        job.watch(&self.waker.waker());
        for part in job.parts() {
            job.metrics().queue.observe(part.waited.as_secs_f64());
        }
        let request = self.requests.iter().position(Option::is_none).unwrap_or(self.requests.len());
        let is_empty = payloads.is_empty();
        let row = |(index, payload)| Row { request, index, steps: 0, in_step: false, seen: false, payload };
        self.rows.extend(payloads.into_iter().enumerate().map(row));
        let joined = Request {
            streaming: job.stream(),
            full_since: None,
            in_step: false,
            times: InterpreterTimes::default(),
            share: Duration::ZERO,
        };
        match self.requests.get_mut(request) {
            Some(place) => *place = Some(joined),
            None => self.requests.push(Some(joined)),
        }
        self.changes += 1;
        if is_empty {
            self.end(request, Ok(()));
        }
    }

    /// Lets the rows leave whose client has left, is late, or does not read.
    pub fn retire(&mut self, now: Instant) {
        for place in 0..self.requests.len() {
            if let Some(result) = self.requests[place].as_ref().and_then(|request| request.end(now)) {
                self.end(place, result);
            }
        }
    }

    /// Chooses the rows of a step: those whose clients have room. Returns their number.
    pub fn begin_step(&mut self, now: Instant) -> usize {
        for request in self.requests.iter_mut().flatten() {
            request.in_step = !request.streaming.is_full();
            request.full_since = if request.in_step { None } else { request.full_since.or(Some(now)) };
        }
        for row in &mut self.rows {
            row.in_step = self.requests[row.request].as_ref().is_some_and(|request| request.in_step);
            row.seen |= row.in_step;
        }
        self.step_rows().count()
    }

    /// Rows of the step, each with the number of its steps before.
    pub fn step_rows(&self) -> impl Iterator<Item = (&T, u64)> {
        self.rows.iter().filter(|row| row.in_step).map(|row| (&row.payload, row.steps))
    }

    /// Sends the results of a step, in the order of [`RowSet::step_rows`], with parameters of each row's response.
    ///
    /// # Errors
    /// `Handler`, before anything is sent: the numbers of results and rows differ, or outputs do not match the
    /// declaration.
    pub fn finish_step(&mut self, results: Vec<(RowChunk, Parameters)>, times: InterpreterTimes) -> Result<()> {
        let count = self.step_rows().count();
        self.check(&results, count)?;
        self.observe(count, Some(times));
        for request in self.requests.iter_mut().flatten().filter(|request| request.in_step) {
            request.times.handler += times.handler;
            request.times.boundary += times.boundary;
            request.times.output += times.output;
        }
        let max_steps = self.queue.spec().iterative.map_or(u64::MAX, |iterative| iterative.max_steps);
        for (row, (chunk, parameters)) in self.rows.iter_mut().filter(|row| row.in_step).zip(results) {
            let Some(request) = &mut self.requests[row.request] else { continue };
            request.share += times.handler.div_f64(count as f64);
            row.steps += 1;
            if request.streaming.is_row_open(row.index) {
                request.streaming.send_chunk(row.index, chunk, parameters)?;
            }
            if row.steps >= max_steps && request.streaming.is_row_open(row.index) {
                let error = too_many_steps(self.queue.spec(), max_steps);
                request.streaming.send_chunk(row.index, RowChunk::Fail(error), Parameters::new())?;
            }
        }
        let now = Instant::now();
        for request in self.requests.iter_mut().flatten().filter(|request| request.in_step) {
            request.streaming.resumed = now;
        }
        self.sweep();
        Ok(())
    }

    /// Records a step that failed, and lets all rows leave with its error.
    pub fn fail_step(&mut self, error: &Error) {
        self.observe(self.step_rows().count(), None);
        for place in 0..self.requests.len() {
            self.end(place, Err(error.clone()));
        }
    }

    /// Takes the rows that have left since the last call: each row that has been in a step is here exactly once.
    pub fn take_left(&mut self) -> Vec<T> {
        std::mem::take(&mut self.left)
    }

    /// Waits while no row can be in a step: until a client has room, leaves, or is late, or a request can join.
    pub fn wait(&self) {
        self.waker.arm();
        self.state().set_waits_for_client(true);
        let now = Instant::now();
        if self.requests.iter().flatten().all(|request| request.end(now).is_none() && request.streaming.is_full()) {
            let until = self.requests.iter().flatten().map(|request| request.next_end(now)).min();
            let patience = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
            let room = self.room();
            if !self.queue.wait_to_join(self.instance, room, patience) {
                // With room, the request that does not fit may be taken or abandoned, and the next one may fit.
                self.waker.wait(if room > 0 { patience.min(RECHECK) } else { patience });
            }
        }
        self.waker.disarm();
        self.state().step();
        self.state().set_waits_for_client(false);
    }

    /// Rows that may join.
    fn room(&self) -> usize {
        self.queue.spec().max_batch_size().saturating_sub(self.rows.len())
    }

    fn state(&self) -> &InstanceState {
        self.queue.instance(self.instance)
    }

    fn check(&self, results: &[(RowChunk, Parameters)], count: usize) -> Result<()> {
        if results.len() != count {
            return Err(Error::handler(format!(
                "model '{}' returned {} results of a step of {count} rows",
                self.queue.spec().name,
                results.len()
            )));
        }
        let Some(job) = self.jobs().next() else { return Ok(()) };
        results.iter().try_for_each(|(chunk, _)| match chunk {
            RowChunk::More(outputs) | RowChunk::Last(outputs) => job.check(outputs, 1),
            RowChunk::Nothing | RowChunk::End | RowChunk::Fail(_) => Ok(()),
        })
    }

    fn observe(&self, count: usize, times: Option<InterpreterTimes>) {
        self.state().step_of(count);
        // A warm-up call has separate metrics.
        let Some(job) = self.requests.iter().flatten().find(|request| request.in_step) else { return };
        let metrics = job.streaming.job().metrics();
        metrics.cut(Reason::Step, count);
        if let Some(times) = times {
            metrics.compute.observe(times.handler.as_secs_f64());
            metrics.interpreter(times);
        }
        metrics.statistics.stepped(count, times);
    }

    /// Removes the rows and requests that have ended.
    fn sweep(&mut self) {
        for place in 0..self.requests.len() {
            if self.requests[place].as_ref().is_some_and(|request| request.streaming.is_over()) {
                self.end(place, Ok(()));
            }
        }
        let requests = &self.requests;
        let has_ended = |row: &mut Row<T>| {
            !requests[row.request].as_ref().is_some_and(|request| request.streaming.is_row_open(row.index))
        };
        let before = self.rows.len();
        self.left.extend(self.rows.extract_if(.., has_ended).filter(|row| row.seen).map(|row| row.payload));
        self.changes += u64::from(self.rows.len() < before);
    }

    /// Ends a request, and lets its rows leave.
    fn end(&mut self, place: usize, result: Result<()>) {
        let Some(request) = self.requests[place].take() else { return };
        let own = self.rows.extract_if(.., |row| row.request == place);
        self.left.extend(own.filter(|row| row.seen).map(|row| row.payload));
        self.changes += 1;
        request.streaming.leave(result, request.times, request.share);
    }
}

impl Request {
    /// The result with which the request has to end now.
    fn end(&self, now: Instant) -> Option<Result<()>> {
        let job = self.streaming.job();
        if !self.streaming.is_wanted() {
            return Some(Ok(()));
        }
        if job.parts().iter().any(|part| part.request.deadline.is_some_and(|deadline| deadline <= now)) {
            let text = format!("model '{}' did not answer within the deadline", job.spec().name);
            return Some(Err(Error::new(Kind::Timeout, text)));
        }
        let is_stalled = self.full_since.is_some_and(|since| since + SLOW_READER_TIMEOUT <= now);
        is_stalled.then(|| Err(stalled(&job.spec().name, SLOW_READER_TIMEOUT)))
    }

    /// Time at which a request without room has to end.
    fn next_end(&self, now: Instant) -> Instant {
        let deadlines = self.streaming.job().parts().iter().filter_map(|part| part.request.deadline);
        let stalled = self.full_since.unwrap_or(now) + SLOW_READER_TIMEOUT;
        deadlines.min().map_or(stalled, |deadline| deadline.min(stalled))
    }
}

fn too_many_steps(spec: &ModelSpec, max_steps: u64) -> Error {
    Error::handler(format!("model '{}' did not end a row within max_steps={max_steps} steps", spec.name))
}
