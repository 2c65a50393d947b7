//! The runtime of the process, on its own thread, started on first use.

use std::{
    future::Future,
    io,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    runtime::{Builder, Handle},
    task::AbortHandle,
};

/// Maximum number of generations of processes, each forked from the one before, that use a client.
const GENERATIONS: usize = 64;

/// One slot per generation: a forked child has its parent's memory and none of its threads, so it must not use or await
/// anything of the parent.
static RUNTIMES: [OnceLock<Handle>; GENERATIONS] = [const { OnceLock::new() }; GENERATIONS];
static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// Starts a new generation. Call it in the child after a `fork`, before creating a client.
pub fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Spawns `future` on the runtime. The handle can abort it; without that it runs to its end.
///
/// # Errors
/// The thread cannot be started.
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> io::Result<AbortHandle> {
    Ok(handle()?.spawn(future).abort_handle())
}

/// Handle of the runtime.
///
/// # Errors
/// Its thread cannot be started.
pub(crate) fn handle() -> io::Result<&'static Handle> {
    let place = &RUNTIMES[GENERATION.load(Ordering::Relaxed).min(GENERATIONS - 1)];
    if let Some(handle) = place.get() {
        return Ok(handle);
    }
    // Two concurrent first callers may both build one; the thread of the unused one ends at once.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let kept = place.get_or_init(|| handle.clone());
    if kept.id() == handle.id() {
        std::thread::Builder::new()
            .name("penstock-client".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn forked_process_gets_a_new_runtime() {
        let runtime_and_thread = || {
            let (sender, receiver) = mpsc::channel();
            spawn(async move {
                sender.send((Handle::current().id(), std::thread::current().name().map(str::to_owned))).unwrap()
            })
            .unwrap();
            receiver.recv().unwrap()
        };
        let first = runtime_and_thread();
        assert_eq!(first.1.as_deref(), Some("penstock-client"));
        assert_eq!(runtime_and_thread(), first);
        forked();
        assert_ne!(runtime_and_thread().0, first.0);
    }
}
