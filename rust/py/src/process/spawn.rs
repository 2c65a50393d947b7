//! The server's side of a process instance: a thread that never attaches to the interpreter.

use crate::{
    definition::processes::Processes,
    handler::load_result::{LoadFailed, LoadResult},
};
use penstock_core::queue::Queue;
use penstock_process::{Instance, ProcessPool};
use std::{
    io,
    sync::{Arc, mpsc},
    thread,
};

/// Starts one instance's thread, which reports on `built`.
pub(crate) fn spawn(
    queue: Arc<Queue>,
    index: usize,
    processes: &Processes,
    pool: &Arc<ProcessPool>,
    built: mpsc::Sender<LoadResult>,
) -> io::Result<thread::JoinHandle<()>> {
    let name = format!("penstock-{}", queue.spec().name);
    let (source, limits) = (processes.source.clone(), Arc::clone(&processes.limits));
    let instance = Instance { queue, index, source, limits, pool: Arc::clone(pool) };
    thread::Builder::new().name(name).spawn(move || {
        instance.run(|loaded| {
            // A server that waits no longer has closed the queue, so this instance ends at once.
            let _ = built.send(loaded.map_err(LoadFailed::ProcessFailed));
        });
    })
}
