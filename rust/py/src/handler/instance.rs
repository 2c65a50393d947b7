//! Instance thread: builds a handler, pulls batches, and calls it.
//!
//! This is the only loop in which user code runs. The thread is attached to the interpreter from the start, and
//! detaches while it waits for a batch and joins its rows.

use super::{
    call,
    inline::Inline,
    iterative::{self, Stepper},
    load_result::LoadResult,
    sequences::Sequences,
    stream,
};
use crate::{
    attach::{attached, detached, detached_timed},
    definition::HandlerSpec,
    errors, forks,
};
use penstock_core::{Inputs, Job, Work, queue::Queue};
use pyo3::prelude::*;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak, mpsc},
    thread,
    time::{Duration, Instant},
};

/// The wait for the interpreter from which on it pays to let late requests join the batch.
const LATE_FROM: Duration = Duration::from_micros(100);

/// Starts one instance's thread, which reports on `built`.
pub(crate) fn spawn(
    queue: Arc<Queue>,
    index: usize,
    handler_spec: Arc<HandlerSpec>,
    built: mpsc::Sender<LoadResult>,
) -> std::io::Result<thread::JoinHandle<()>> {
    let name = format!("penstock-{}", queue.spec().name);
    let work = move |py: Python<'_>| {
        run(py, &queue, index, &handler_spec, &built);
        // The last instance of a replaced model drops the model's code here, with the interpreter.
        drop(handler_spec);
    };
    thread::Builder::new().name(name).spawn(move || attached(work))
}

fn run(
    py: Python<'_>,
    queue: &Arc<Queue>,
    index: usize,
    handler_spec: &Arc<HandlerSpec>,
    built: &mpsc::Sender<LoadResult>,
) {
    let handler = handler_spec.factory.bind(py).call0();
    forks::end_copy(&queue.spec().name);
    let handler = match handler {
        Ok(handler) => handler,
        Err(error) => {
            let _ = built.send(Err(error.into()));
            return;
        }
    };
    let parts = || -> PyResult<_> {
        let leave = queue.spec().iterative.is_some().then(|| handler.getattr("leave")).transpose()?;
        Ok((handler.getattr("call")?, handler.getattr("close")?, handler.getattr("close_sequence")?, leave))
    };
    let (call, close, close_sequence, leave) = match parts() {
        Ok(parts) => parts,
        Err(error) => {
            let _ = built.send(Err(error.into()));
            return;
        }
    };
    // A server that waits no longer has closed the queue, so this instance closes its handler at once.
    let _ = built.send(Ok(()));
    drop(handler);
    if let Some(leave) = leave {
        let (spec, metrics) = (Arc::clone(queue.spec()), Arc::clone(queue.metrics()));
        let stepper = Stepper { step: call, leave, spec, metrics, handler_spec };
        iterative::run(&stepper, queue, index);
        return end(py, queue, &close);
    }
    let mut sequences = Sequences::new(close_sequence.unbind());
    let inline = handler_spec.inline.then(|| start_inline(queue, index, handler_spec, &call));
    while let Some((job, inputs, waited)) = next(py, queue, index, &mut sequences, inline.as_deref()) {
        let start = Instant::now();
        answer(&call, handler_spec, &mut sequences, job, inputs);
        if let Some(inline) = &inline {
            inline.finish(waited + start.elapsed());
        }
    }
    if let Some(inline) = &inline {
        // An I/O thread may compute the last batch.
        detached(py, || inline.acquire());
    }
    sequences.close_all(py, queue.spec());
    end(py, queue, &close);
}

/// Closes the handler.
fn end(py: Python<'_>, queue: &Arc<Queue>, close: &Bound<'_, PyAny>) {
    if let Err(error) = close.call0() {
        let _ = errors::from_handler(py, queue.spec(), &error);
    }
}

/// Lets I/O threads call the handler too.
fn start_inline(
    queue: &Arc<Queue>,
    index: usize,
    handler_spec: &Arc<HandlerSpec>,
    call: &Bound<'_, PyAny>,
) -> Arc<Inline> {
    let inline = Arc::new(Inline::new(Arc::clone(queue), index, Arc::clone(handler_spec), call.clone().unbind()));
    let executor: Weak<Inline> = Arc::downgrade(&inline);
    queue.set_inline(executor);
    inline
}

/// Waits for a request of a model without sequences; `None` when the queue is closed and empty.
pub(super) fn receive(queue: &Arc<Queue>, index: usize) -> Option<Job> {
    loop {
        if let Work::Batch(job) = queue.next(index)? {
            return Some(job);
        }
    }
}

/// Waits for a batch and joins its rows, without the interpreter. Closes sequences in between. Returns also the wait for
/// the interpreter. With `inline`, the instance has its turn.
fn next(
    py: Python<'_>,
    queue: &Arc<Queue>,
    index: usize,
    sequences: &mut Sequences,
    inline: Option<&Inline>,
) -> Option<(Job, Inputs, Duration)> {
    let (mut job, inputs, waited) = loop {
        let (work, waited) = detached_timed(py, || match queue.next_to_enter(index)? {
            Work::Over(ids) => Some(Err(ids)),
            Work::Batch(mut job) => {
                let inputs = job.gather();
                if let Some(inline) = inline {
                    inline.acquire();
                }
                Some(Ok((job, inputs)))
            }
        });
        match work? {
            Ok((job, inputs)) => break (job, inputs, waited),
            Err(over) => over.iter().for_each(|id| sequences.close(py, queue.spec(), id)),
        }
    };
    let inputs = match waited < LATE_FROM || !job.has_room() {
        true => inputs,
        // Nothing is copied, and another thread would take the interpreter meanwhile.
        false if job.spec().raw_requests => job.admit_late_joiners(inputs),
        false => detached(py, || job.admit_late_joiners(inputs)),
    };
    job.entered();
    Some((job, inputs, waited))
}

fn answer(
    handler: &Bound<'_, PyAny>,
    handler_spec: &HandlerSpec,
    sequences: &mut Sequences,
    mut job: Job,
    inputs: Inputs,
) {
    if job.spec().streams {
        return stream::answer(handler, handler_spec, sequences, job, inputs);
    }
    let (py, attached_at) = (handler.py(), Instant::now());
    let caught =
        catch_unwind(AssertUnwindSafe(|| call::call(handler, handler_spec, sequences, &mut job, inputs, attached_at)));
    let result = caught.unwrap_or_else(|_| Err(call::panicked(&job)));
    detached(py, move || job.finish(result));
}
