//! One call of a handler, with its conversions and its times.

use super::{
    arguments,
    batch_output::{self, HandlerResult},
    sequences::Sequences,
    thread_context::{LogScope, TraceScope},
};
use crate::{definition::HandlerSpec, errors, forks};
use penstock_core::{BatchOutput, Error, Inputs, InterpreterTimes, Job, Result};
use pyo3::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Calls `handler` with a batch's inputs. `attached_at` is the time at which this thread got the interpreter.
///
/// # Errors
/// `Handler` for an exception or a wrong return value; its own kind for one of Penstock's exceptions.
pub(crate) fn call(
    handler: &Bound<'_, PyAny>,
    handler_spec: &HandlerSpec,
    sequences: &mut Sequences,
    job: &mut Job,
    inputs: Inputs,
    attached_at: Instant,
) -> Result<BatchOutput> {
    let py = handler.py();
    let raised = |job: &Job, error: &PyErr| errors::from_handler(py, job.spec(), error);
    let _computing = LogScope::begin(job);
    let prepared = arguments::arguments(py, handler_spec, sequences, job, inputs);
    let (arguments, context) = prepared.map_err(|error| raised(job, &error))?;

    let in_trace = TraceScope::enter(py, job);
    let (start, cpu_start) = (Instant::now(), thread_time());
    let returned = handler.call1(arguments);
    forks::end_copy(&job.spec().name);
    let (end, cpu_end) = (Instant::now(), thread_time());
    drop(in_trace);

    let HandlerResult { outputs, failed, per_request } = batch_output::tensors(py, job.spec(), handler_spec, returned)?;
    let handler = end - start;
    Ok(BatchOutput {
        outputs,
        failed,
        per_request,
        parameters: context.map(|context| context.get().take_answer()).unwrap_or_default(),
        times: InterpreterTimes {
            handler,
            handler_cpu: cpu_end.saturating_sub(cpu_start).min(handler),
            boundary: attached_at.elapsed().saturating_sub(handler),
            output: end.elapsed(),
        },
    })
}

/// The processor time of this thread, which excludes waits.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The error of a batch whose conversion panicked: an error of the server, not of the handler.
pub(crate) fn panicked(job: &Job) -> Error {
    Error::new(penstock_core::Kind::Internal, format!("model '{}': the server failed on this batch", job.spec().name))
}
