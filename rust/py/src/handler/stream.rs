//! Streaming handlers: the instance's thread runs their generator, and pauses it while clients read slower than it
//! yields.

use super::{
    arguments,
    call::panicked,
    context::Context,
    cpu_clock::thread_time,
    outputs::{self, Outputs, unwrapped},
    per_request, raw_outputs, row_errors,
    sequences::Sequences,
    stream_sink::StreamSink,
    thread_context::{LogScope, TraceScope},
};
use crate::{
    attach::detached,
    definition::HandlerSpec,
    errors::{self, class_of},
    forks,
};
use penstock_core::{Error, Inputs, InterpreterTimes, Job, ModelSpec, Parameters, Result, RowChunk, Shape, Tensor};
use pyo3::{
    intern,
    prelude::*,
    types::{PyIterator, PyList},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

/// Responds to a batch with the chunks that its handler yields.
pub(crate) fn answer(
    handler: &Bound<'_, PyAny>,
    handler_spec: &HandlerSpec,
    sequences: &mut Sequences,
    mut job: Job,
    inputs: Inputs,
) {
    let py = handler.py();
    let (_computing, _in_trace) = (LogScope::begin(&job), TraceScope::enter(py, &job));
    let begun = catch_unwind(AssertUnwindSafe(|| begin(handler, handler_spec, sequences, &mut job, inputs)));
    let begun = begun.unwrap_or_else(|_| Err(panicked(&job)));
    let generator = match begun {
        Ok(generator) => generator,
        Err(error) => return detached(py, move || job.finish(Err(error))),
    };
    let mut streaming = job.stream();
    let result = generator.run_to_end(&mut streaming);
    detached(py, move || streaming.finish(result));
}

pub(crate) fn begin<'a, 'py>(
    handler: &Bound<'py, PyAny>,
    handler_spec: &'a HandlerSpec,
    sequences: &mut Sequences,
    job: &mut Job,
    inputs: Inputs,
) -> Result<Generator<'a, 'py>> {
    let py = handler.py();
    let raised = |job: &Job, error: &PyErr| errors::from_handler(py, job.spec(), error);
    let (arguments, context) =
        arguments::arguments(py, handler_spec, sequences, job, inputs).map_err(|error| raised(job, &error))?;
    let returned = handler.call1(arguments);
    forks::end_copy(&job.spec().name);
    let returned = returned.map_err(|error| raised(job, &error))?;
    match returned.cast_into::<PyIterator>() {
        Ok(pieces) => Ok(Generator { handler_spec, pieces, context }),
        Err(other) => Err(Error::handler(format!(
            "model '{}' returned {}, it streams and must return a generator or another iterator",
            job.spec().name,
            class_of(&other.into_inner()),
        ))),
    }
}

/// The generator of a handler.
pub(crate) struct Generator<'a, 'py> {
    handler_spec: &'a HandlerSpec,
    pieces: Bound<'py, PyIterator>,
    context: Option<Bound<'py, Context>>,
}

impl Generator<'_, '_> {
    /// Runs it, and closes it.
    pub(crate) fn run_to_end(&self, streaming: &mut impl StreamSink) -> Result<InterpreterTimes> {
        let run = catch_unwind(AssertUnwindSafe(|| self.run(streaming)));
        let result = run.unwrap_or_else(|_| Err(panicked(streaming.job())));
        self.close(streaming.job());
        if let Some(context) = &self.context {
            context.get().count_tokens();
        }
        result
    }

    /// Runs it to its end, or until all clients have disconnected.
    fn run(&self, streaming: &mut impl StreamSink) -> Result<InterpreterTimes> {
        let py = self.pieces.py();
        let (began, cpu_began) = (Instant::now(), thread_time());
        let (mut handler, mut paused) = (Duration::ZERO, Duration::ZERO);
        let mut pieces = self.pieces.clone();
        while streaming.is_wanted() {
            if streaming.is_full() {
                let start = Instant::now();
                detached(py, || streaming.wait_for_room());
                paused += start.elapsed();
                continue;
            }
            let start = Instant::now();
            let piece = pieces.next();
            forks::end_copy(&streaming.job().spec().name);
            handler += start.elapsed();
            match piece {
                None => break,
                Some(Ok(piece)) => {
                    send(streaming, self.handler_spec, self.context.as_ref().map(Bound::as_unbound), piece)?
                }
                Some(Err(error)) => {
                    let context = self.context.as_ref().map(Bound::as_unbound);
                    raised(streaming, self.handler_spec, context, py, error)?;
                    break;
                }
            }
        }
        let boundary = began.elapsed().saturating_sub(handler + paused);
        let handler_cpu = thread_time().saturating_sub(cpu_began).min(handler);
        Ok(InterpreterTimes { handler, handler_cpu, boundary, output: boundary })
    }

    /// Closes a generator that may not have reached its end.
    fn close(&self, job: &Job) {
        let py = self.pieces.py();
        let Ok(Some(close)) = self.pieces.getattr_opt(intern!(py, "close")) else { return };
        if let Err(error) = close.call0() {
            // No client waits for this exception, so only the log gets it.
            let _ = errors::from_handler(py, job.spec(), &error);
        }
    }
}

/// Sends a value that a handler yielded.
///
/// # Errors
/// `Handler` for outputs that do not match the declaration.
pub(crate) fn send(
    streaming: &mut impl StreamSink,
    handler_spec: &HandlerSpec,
    context: Option<&Py<Context>>,
    piece: Bound<'_, PyAny>,
) -> Result<()> {
    let parameters = context.map(|context| context.get().take_answer()).unwrap_or_default();
    let spec = streaming.job().spec().clone();
    if spec.raw_requests {
        return streaming.send_apart(raw_outputs::pieces(&spec, handler_spec, piece)?, &parameters);
    }
    if per_request::are(&piece) {
        let each = per_request::tensors(&spec, &handler_spec.outputs, piece)?;
        return streaming.send_apart(each.into_iter().map(Into::into).collect(), &parameters);
    }
    if spec.batching.is_some() && piece.is_instance_of::<PyList>() {
        let rows = piece.cast_into::<PyList>().map_err(|_| Error::handler("a list is a list"))?;
        let rows = rows.iter().map(|row| row_chunk(&spec, handler_spec, row)).collect::<Result<Vec<_>>>()?;
        return streaming.send_rows(rows, &parameters);
    }
    if row_errors::is_exception(&piece) && row_errors::has_failures(&spec, &piece) {
        return part(streaming, handler_spec, &parameters, &piece, false);
    }
    match unwrapped(piece, &spec)? {
        (Some(piece), last) => {
            let outputs = outputs::tensors(&spec, &handler_spec.outputs, piece)?;
            streaming.send(outputs, &parameters, last)
        }
        (None, _) => {
            streaming.end_all();
            Ok(())
        }
    }
}

/// Handles an exception of a generator: ends single streams, where it concerns single rows only.
///
/// # Errors
/// The exception, if it concerns the whole batch.
pub(crate) fn raised(
    streaming: &mut impl StreamSink,
    handler_spec: &HandlerSpec,
    context: Option<&Py<Context>>,
    py: Python<'_>,
    error: PyErr,
) -> Result<()> {
    let spec = streaming.job().spec().clone();
    if spec.raw_requests || !row_errors::is_raised(py, &spec, &error) {
        return Err(errors::from_handler(py, &spec, &error));
    }
    let parameters = context.map(|context| context.get().take_answer()).unwrap_or_default();
    part(streaming, handler_spec, &parameters, error.value(py).as_any(), true)
}

/// Ends the streams of the rows that failed, and sends the other clients their outputs if there are any.
fn part(
    streaming: &mut impl StreamSink,
    handler_spec: &HandlerSpec,
    parameters: &Parameters,
    piece: &Bound<'_, PyAny>,
    last: bool,
) -> Result<()> {
    let spec = streaming.job().spec().clone();
    let (failed, outputs) = row_errors::part(&spec, piece)?;
    streaming.fail_rows(&failed)?;
    match outputs {
        Some(outputs) => streaming.send(outputs::tensors(&spec, &handler_spec.outputs, outputs)?, parameters, last),
        None => Ok(()),
    }
}

/// Converts one entry of a list of rows: None for no chunk, `Final` for the last one, an exception for a failure.
pub(super) fn row_chunk(spec: &ModelSpec, handler_spec: &HandlerSpec, item: Bound<'_, PyAny>) -> Result<RowChunk> {
    if item.is_none() {
        return Ok(RowChunk::Nothing);
    }
    if row_errors::is_exception(&item) {
        return Ok(RowChunk::Fail(row_errors::failure(spec, &item)));
    }
    let (item, last) = unwrapped(item, spec)?;
    let Some(item) = item else { return Ok(RowChunk::End) };
    let outputs = outputs::tensors(spec, &handler_spec.outputs, item)?;
    let outputs = outputs.into_iter().enumerate().map(|(index, tensor)| one_row(spec, index, tensor));
    let outputs = outputs.collect::<Result<Outputs>>()?;
    Ok(if last { RowChunk::Last(outputs) } else { RowChunk::More(outputs) })
}

/// Adds the batch axis to a row's tensor. A bare value is a row of one element.
fn one_row(spec: &ModelSpec, index: usize, tensor: Tensor) -> Result<Tensor> {
    let (datatype, own, buffer) = tensor.into_parts();
    let mut shape = Shape::new();
    shape.push(1);
    if own.is_empty() {
        shape.extend(spec.outputs[index].dims.iter().map(|_| 1));
    } else {
        shape.extend_from_slice(&own);
    }
    Tensor::new(datatype, shape, buffer).map_err(|error| Error::handler(error.message().to_owned()))
}
