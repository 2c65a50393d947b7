//! Handlers of iterative models: the instance's thread calls their method `step` again and again, over the rows that
//! have joined.

use super::{
    cpu_clock::{CallTimer, CallTimes},
    instance::receive,
    row::Row,
    stream::row_chunk,
    thread_context::{LogScope, TraceScope},
};
use crate::{
    attach::detached,
    definition::HandlerSpec,
    errors::{self, class_of},
    forks,
};
use penstock_core::{
    Error, InterpreterTimes, Job, Kind, ModelSpec, Parameters, Result, RowChunk, RowSet,
    metrics::{MetricUpdate, ModelMetrics},
    queue::Queue,
};
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

/// The methods of a handler, and its model.
pub(super) struct Stepper<'a, 'py> {
    pub(super) step: Bound<'py, PyAny>,
    /// Called once for each row that has been in a step, when it has left.
    pub(super) leave: Bound<'py, PyAny>,
    pub(super) spec: Arc<ModelSpec>,
    pub(super) metrics: Arc<ModelMetrics>,
    pub(super) handler_spec: &'a HandlerSpec,
}

/// Runs steps until the queue is closed and all rows have left.
pub(super) fn run(stepper: &Stepper<'_, '_>, queue: &Arc<Queue>, index: usize) {
    let py = stepper.step.py();
    let mut rows = RowSet::new(Arc::clone(queue), index);
    let mut scope: Option<(u64, LogScope, TraceScope<'_>)> = None;
    loop {
        if rows.is_empty() {
            scope = None;
            match detached(py, || receive(queue, index)) {
                Some(job) => stepper.join(&mut rows, job),
                None => return,
            }
        }
        // Neither blocks: a step is not delayed by other threads that wait for the interpreter.
        rows.take_waiting().into_iter().for_each(|job| stepper.join(&mut rows, job));
        rows.retire(Instant::now());
        stepper.leave(&mut rows);
        if rows.begin_step(Instant::now()) == 0 {
            if !rows.is_empty() {
                detached(py, || rows.wait());
            }
            continue;
        }
        if scope.as_ref().is_none_or(|(changes, ..)| *changes != rows.changes()) {
            // Dropped first: scopes of one thread are nested.
            drop(scope.take());
            scope = Some((rows.changes(), LogScope::of(rows.jobs()), TraceScope::of(py, rows.jobs())));
        }
        let caught = catch_unwind(AssertUnwindSafe(|| stepper.step(&mut rows)));
        let panicked =
            || Error::new(Kind::Internal, format!("model '{}': the server failed on this step", stepper.spec.name));
        if let Err(error) = caught.unwrap_or_else(|_| Err(panicked())) {
            rows.fail_step(&error);
        }
        stepper.leave(&mut rows);
    }
}

impl Stepper<'_, '_> {
    fn join(&self, rows: &mut RowSet<Py<Row>>, mut job: Job) {
        let py = self.step.py();
        match Row::all_of(py, self.handler_spec, &mut job) {
            Ok(payloads) => rows.add(job, payloads),
            Err(error) => job.finish(Err(errors::from_handler(py, &self.spec, &error))),
        }
    }

    /// Tells the handler of the rows that have left.
    fn leave(&self, rows: &mut RowSet<Py<Row>>) {
        let py = self.step.py();
        for row in rows.take_left() {
            if let Err(error) = self.leave.call1((row.clone_ref(py),)) {
                // No client waits for this exception, so only the log gets it.
                let _ = errors::from_handler(py, &self.spec, &error);
            }
            if let Some(usage) = row.get().left() {
                // Tokens need no room among the handler's metrics.
                let _ = self.metrics.record(MetricUpdate::tokens(*usage));
            }
        }
    }

    fn step(&self, rows: &mut RowSet<Py<Row>>) -> Result<()> {
        let (py, began) = (self.step.py(), Instant::now());
        let raised = |error: &PyErr| errors::from_handler(py, &self.spec, error);
        let in_step: Vec<Py<Row>> = rows
            .step_rows()
            .map(|(row, steps)| {
                row.get().begin_step(steps);
                row.clone_ref(py)
            })
            .collect();
        // The handler may change its list.
        let list = PyList::new(py, &in_step).map_err(|error| raised(&error))?;
        let timer = CallTimer::start();
        let returned = self.step.call1((list,));
        forks::end_copy(&self.spec.name);
        let CallTimes { ended, duration: handler, cpu: handler_cpu } = timer.stop();
        let results = self.results(&in_step, returned.map_err(|error| raised(&error))?)?;
        let times = InterpreterTimes {
            handler,
            handler_cpu,
            boundary: began.elapsed().saturating_sub(handler),
            output: ended.elapsed(),
        };
        rows.finish_step(results, times)
    }

    /// Results of a step, for each row.
    fn results(&self, in_step: &[Py<Row>], returned: Bound<'_, PyAny>) -> Result<Vec<(RowChunk, Parameters)>> {
        let entries: Vec<_> = if let Ok(list) = returned.cast::<PyList>() {
            list.iter().collect()
        } else if let Ok(tuple) = returned.cast::<PyTuple>() {
            tuple.iter().collect()
        } else {
            return Err(Error::handler(format!(
                "model '{}' returned {} from step, expected a list with an entry for each row",
                self.spec.name,
                class_of(&returned)
            )));
        };
        // Only the entries hold the arrays from here on, so that these are unshared.
        drop(returned);
        let parameters =
            in_step.iter().map(|row| row.get().take_parameters()).chain(std::iter::repeat_with(Parameters::new));
        let entries = entries.into_iter().zip(parameters);
        entries.map(|(entry, parameters)| Ok((row_chunk(&self.spec, self.handler_spec, entry)?, parameters))).collect()
    }
}
