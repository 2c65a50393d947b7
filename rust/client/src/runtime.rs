//! The one runtime of the process, on a thread of its own, made when it is first needed.

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

/// The most generations of processes, each the child of the one before, that use a client.
const GENERATIONS: usize = 64;

/// One place for each generation: a child of `fork` has its parent's memory and none of its threads, so
/// it must neither use nor wait for what the parent made.
static RUNTIMES: [OnceLock<Handle>; GENERATIONS] = [const { OnceLock::new() }; GENERATIONS];
static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// To be called in the child after a `fork`, before it makes a client.
pub fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Runs `future` on the runtime. The handle gives it up; without that it runs to its end.
///
/// # Errors
/// The thread cannot be made.
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> io::Result<AbortHandle> {
    Ok(handle()?.spawn(future).abort_handle())
}

/// The runtime.
///
/// # Errors
/// Its thread cannot be made.
pub(crate) fn handle() -> io::Result<&'static Handle> {
    let place = &RUNTIMES[GENERATION.load(Ordering::Relaxed).min(GENERATIONS - 1)];
    if let Some(handle) = place.get() {
        return Ok(handle);
    }
    // Two first callers may both make one; the thread of the one that is not kept ends at once.
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
    fn a_fork_gets_a_runtime_of_its_own() {
        let name = || {
            let (sender, receiver) = mpsc::channel();
            spawn(async move {
                sender.send((Handle::current().id(), std::thread::current().name().map(str::to_owned))).unwrap()
            })
            .unwrap();
            receiver.recv().unwrap()
        };
        let first = name();
        assert_eq!(first.1.as_deref(), Some("penstock-client"));
        assert_eq!(name(), first);
        forked();
        assert_ne!(name().0, first.0);
    }
}
