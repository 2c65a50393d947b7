//! A call on the thread of an event loop, which watches the call's socket itself.
//!
//! A small call through the runtime spends most of its time on waking two threads. A call over an idle connection needs
//! none: its first step sends the request, the next reads the response. Anything else (connecting, a full socket, a
//! pause before a retry) is handed to the runtime.

use crate::runtime;
use std::{
    cell::Cell,
    fmt, io,
    os::fd::RawFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

/// Maximum of steps. Longer responses are handed to the runtime, which does not block the event loop.
const STEPS: usize = 4;

/// A future that any thread can poll.
pub type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Result of a step.
pub enum Progress<T> {
    /// The call is done.
    Done(T),
    /// Step again once this descriptor is readable, or when `again` is called.
    Readable(RawFd),
    /// Not doable in steps: spawn this on the runtime ([`runtime::spawn`]).
    HandOff(Work<T>),
}

/// A call under way, step by step.
///
/// ```
/// use penstock_client::{Progress, InlineCall};
///
/// let mut call = InlineCall::new(Box::pin(async { 5 }), || ());
/// assert!(matches!(call.step()?, Progress::Done(5)));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct InlineCall<T> {
    /// `None` once done or handed off.
    work: Option<Work<T>>,
    waker: Waker,
    taken: usize,
}

/// Event that the sockets of the current step wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// No step is running: sockets belong to the runtime.
    OfRuntime,
    /// None yet.
    Nothing,
    /// This descriptor becomes readable.
    Readable(RawFd),
    /// Anything else.
    Other,
}

thread_local! {
    static WAIT: Cell<Wait> = const { Cell::new(Wait::OfRuntime) };
}

struct Again<F>(F);

impl<F: Fn() + Send + Sync> Wake for Again<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

impl<T> InlineCall<T> {
    /// Creates the call without starting it. `again` is called, on any thread, when another step makes sense though the
    /// descriptor is not readable: a deadline has passed.
    pub fn new(work: Work<T>, again: impl Fn() + Send + Sync + 'static) -> Self {
        Self { work: Some(work), waker: Waker::from(Arc::new(Again(again))), taken: 0 }
    }

    /// Runs as far as possible without waiting.
    ///
    /// # Errors
    /// The thread of the runtime, which drives deadlines, cannot be started.
    ///
    /// # Panics
    /// The call is done or handed off.
    pub fn step(&mut self) -> io::Result<Progress<T>> {
        let mut work = self.work.take().expect("a step after the last");
        let runtime = runtime::handle()?;
        let _entered = runtime.enter();
        WAIT.set(Wait::Nothing);
        let polled = work.as_mut().poll(&mut Context::from_waker(&self.waker));
        let wait = WAIT.replace(Wait::OfRuntime);
        self.taken += 1;
        Ok(match (polled, wait) {
            (Poll::Ready(done), _) => Progress::Done(done),
            (Poll::Pending, Wait::Readable(descriptor)) if self.taken < STEPS => {
                self.work = Some(work);
                Progress::Readable(descriptor)
            }
            _ => Progress::HandOff(work),
        })
    }
}

impl<T> fmt::Debug for InlineCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineCall").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Progress<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(_) => f.write_str("Done"),
            Self::Readable(descriptor) => f.debug_tuple("Readable").field(descriptor).finish(),
            Self::HandOff(_) => f.write_str("HandOff"),
        }
    }
}

/// Returns whether this thread runs a step: its sockets must not register with the runtime.
pub(crate) fn is_active() -> bool {
    WAIT.get() != Wait::OfRuntime
}

/// Records that a socket of the step has nothing to read.
pub(crate) fn await_readable(descriptor: RawFd) {
    WAIT.set(match WAIT.get() {
        Wait::Nothing => Wait::Readable(descriptor),
        Wait::Readable(same) if same == descriptor => Wait::Readable(same),
        _ => Wait::Other,
    });
}

/// Records that a socket of the step has no room to write.
pub(crate) fn await_writable() {
    WAIT.set(Wait::Other);
}

#[cfg(test)]
mod tests;
