//! One batch in a process: computed as on a thread, with a response in shared memory.

use crate::{
    definition::HandlerSpec,
    handler::{
        call,
        outputs::Outputs,
        sequences::Sequences,
        stream,
        stream_sink::StreamSink,
        thread_context::{LogScope, TraceScope},
    },
};
use penstock_core::{BatchOutput, Error, Inputs, Job, Kind, Parameters, RequestOutput, Result, RowChunk, RowFailures};
use penstock_process::Worker;
use pyo3::prelude::*;
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

/// Computes a batch and responds to it.
///
/// # Errors
/// The server is gone.
pub(super) fn answer(
    worker: &mut Worker,
    handler: &Bound<'_, PyAny>,
    handler_spec: &HandlerSpec,
    sequences: &mut Sequences,
    mut job: Job,
    inputs: Inputs,
) -> io::Result<()> {
    let metrics = Arc::clone(job.metrics());
    let attached_at = Instant::now();
    let result = if job.spec().streams {
        stream(worker, handler, handler_spec, sequences, job, inputs)
    } else {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            call::call(handler, handler_spec, sequences, &mut job, inputs, attached_at)
        }));
        let result = caught.unwrap_or_else(|_| Err(call::panicked(&job)));
        // The state of its clients is in the batch's memory.
        drop(job);
        result
    };
    // Attached, because shared arrays are copied here.
    worker.done(result, &metrics.take_buffered())
}

fn stream(
    worker: &mut Worker,
    handler: &Bound<'_, PyAny>,
    handler_spec: &HandlerSpec,
    sequences: &mut Sequences,
    mut job: Job,
    inputs: Inputs,
) -> Result<BatchOutput> {
    let (_computing, _in_trace) = (LogScope::begin(&job), TraceScope::enter(handler.py(), &job));
    let begun = catch_unwind(AssertUnwindSafe(|| stream::begin(handler, handler_spec, sequences, &mut job, inputs)));
    let generator = begun.unwrap_or_else(|_| Err(call::panicked(&job)))?;
    let times = generator.run_to_end(&mut ToServer { worker, job })?;
    Ok(BatchOutput { times, ..BatchOutput::default() })
}

/// The sink that sends chunks to the server.
struct ToServer<'a> {
    worker: &'a mut Worker,
    job: Job,
}

impl StreamSink for ToServer<'_> {
    fn job(&self) -> &Job {
        &self.job
    }

    fn is_wanted(&self) -> bool {
        self.job.is_wanted()
    }

    fn is_full(&mut self) -> bool {
        !self.worker.has_room()
    }

    fn wait_for_room(&mut self) {
        self.worker.wait_for_room();
    }

    fn send(&mut self, outputs: Outputs, parameters: &Parameters, last: bool) -> Result<()> {
        let counts = self.job.metrics().take_buffered();
        self.worker.chunk(outputs, parameters, last, &counts).map_err(gone)
    }

    fn send_apart(&mut self, apart: Vec<RowChunk<RequestOutput>>, parameters: &Parameters) -> Result<()> {
        let counts = self.job.metrics().take_buffered();
        self.worker.per_request(apart, parameters, &counts).map_err(gone)
    }

    fn send_rows(&mut self, rows: Vec<RowChunk>, parameters: &Parameters) -> Result<()> {
        let counts = self.job.metrics().take_buffered();
        self.worker.rows(rows, parameters, &counts).map_err(gone)
    }

    fn fail_rows(&mut self, failed: &RowFailures) -> Result<()> {
        let mut rows: Vec<RowChunk> = (0..self.job.padded()).map(|_| RowChunk::Nothing).collect();
        for (place, error) in failed.iter() {
            let row = rows.get_mut(*place);
            let row =
                row.ok_or_else(|| Error::handler(format!("the handler failed row {place} of a smaller batch")))?;
            *row = RowChunk::Fail(error.clone());
        }
        self.send_rows(rows, &Parameters::default())
    }

    fn end_all(&mut self) {
        // If the server is gone, the last response reports it.
        let _ = self.worker.end_all();
    }
}

fn gone(error: io::Error) -> Error {
    Error::new(Kind::Internal, format!("an answer could not be sent: {error}"))
}
