//! Feeder of an event loop: a thread that pulls batches and never holds the interpreter.

use super::shared::{Item, Shared};
use penstock_core::{Work, queue::Queue};
use std::{sync::Arc, thread};

/// Pulls batches, at most `most` at once, until the queue is closed and empty or the loop has ended.
pub(crate) fn spawn(
    queue: Arc<Queue>,
    index: usize,
    most: usize,
    shared: Arc<Shared>,
) -> std::io::Result<thread::JoinHandle<()>> {
    let feed = move || {
        let waker = shared.waker();
        while shared.wait_for_capacity(most) {
            match queue.next(index) {
                None => break,
                Some(Work::Over(ids)) => shared.push(Item::Over(ids)),
                Some(Work::Batch(mut job)) => {
                    let inputs = job.gather();
                    job.watch(&waker);
                    shared.push(Item::Batch(job, inputs));
                }
            }
        }
        shared.close();
    };
    thread::Builder::new().name("penstock-feeder".to_owned()).spawn(feed)
}
