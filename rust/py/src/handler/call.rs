//! One call of a handler, with its conversions and its times.

use super::{
    arguments,
    batch_output::{self, HandlerResult},
    cpu_clock::{CallTimer, CallTimes},
    sequences::Sequences,
    thread_context::{LogScope, TraceScope},
};
use crate::{definition::HandlerSpec, errors, forks};
use penstock_core::{BatchOutput, Error, Inputs, InterpreterTimes, Job, Result};
use pyo3::prelude::*;
use std::time::Instant;

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
    let timer = CallTimer::start();
    let returned = handler.call1(arguments);
    forks::end_copy(&job.spec().name);
    let CallTimes { ended, duration: handler, cpu: handler_cpu } = timer.stop();
    drop(in_trace);
    if let Some(context) = &context {
        context.get().count_tokens();
    }

    let HandlerResult { outputs, failed, per_request } = batch_output::tensors(py, job.spec(), handler_spec, returned)?;
    Ok(BatchOutput {
        outputs,
        failed,
        per_request,
        parameters: context.map(|context| context.get().take_answer()).unwrap_or_default(),
        times: InterpreterTimes {
            handler,
            handler_cpu,
            boundary: attached_at.elapsed().saturating_sub(handler),
            output: ended.elapsed(),
        },
    })
}

/// The error of a batch whose conversion panicked: an error of the server, not of the handler.
pub(crate) fn panicked(job: &Job) -> Error {
    Error::new(penstock_core::Kind::Internal, format!("model '{}': the server failed on this batch", job.spec().name))
}
