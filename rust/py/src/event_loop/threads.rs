//! The threads of an async instance.

use super::{block_detector, call_queue::CallQueue, feeder, shared::Shared};
use crate::{attach::attached, definition::HandlerSpec, errors, handler::load_result::LoadResult};
use penstock_core::queue::Queue;
use pyo3::prelude::*;
use std::{
    sync::{Arc, mpsc},
    thread,
};

/// Starts an instance's threads, and returns the loop's, which reports on `built`. The other two end with it.
pub(crate) fn spawn(
    queue: Arc<Queue>,
    index: usize,
    handler_spec: Arc<HandlerSpec>,
    built: mpsc::Sender<LoadResult>,
) -> std::io::Result<thread::JoinHandle<()>> {
    let shared = Arc::new(Shared::new(Arc::clone(&queue), index)?);
    feeder::spawn(Arc::clone(&queue), index, handler_spec.concurrency.unwrap_or(1), Arc::clone(&shared))?;
    block_detector::spawn(Arc::clone(&queue.spec().name), Arc::clone(&shared))?;
    let name = format!("penstock-{}", queue.spec().name);
    thread::Builder::new().name(name).spawn(move || attached(|py| run(py, queue, handler_spec, shared, built)))
}

fn run(
    py: Python<'_>,
    queue: Arc<Queue>,
    handler_spec: Arc<HandlerSpec>,
    shared: Arc<Shared>,
    built: mpsc::Sender<LoadResult>,
) {
    let _end = EndGuard(Arc::clone(&shared));
    let spec = Arc::clone(queue.spec());
    let factory = handler_spec.factory.clone_ref(py);
    let ran = Bound::new(py, CallQueue::new(queue, handler_spec, shared, built)).and_then(|port| {
        py.import("penstock._runtime.event_loop")?.call_method1("run", (factory, &port))?;
        Ok(())
    });
    if let Err(raised) = ran {
        let _ = errors::from_handler(py, &spec, &raised);
    }
}

/// Marks the end of the loop, also after a panic.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.mark_ended();
    }
}
