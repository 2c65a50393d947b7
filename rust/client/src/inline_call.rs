//! A call that its asker carries on itself: an event loop, which can watch the call's socket with its own.
//!
//! The way through the runtime wakes two threads, one to send and one to take the answer, which is most of what
//! a small call takes. A call that goes through idle connections needs neither: its first step sends the request,
//! the next reads the answer. What takes anything else (a connection to be made, a socket that is full, a pause
//! before another attempt) goes on elsewhere.

use crate::runtime;
use std::{
    cell::Cell,
    fmt, io,
    os::fd::RawFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

/// The most steps: a longer answer is left to the runtime, which takes nobody's time with it.
const STEPS: usize = 4;

/// A future that any thread may carry on.
pub type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How far a step came.
pub enum Progress<T> {
    /// To the end.
    Done(T),
    /// Another step makes sense once this descriptor is readable, or when the asker is told so.
    Readable(RawFd),
    /// As far as steps lead: the runtime can carry this on ([`runtime::spawn`]).
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
    /// `None` once it is done or elsewhere.
    work: Option<Work<T>>,
    waker: Waker,
    taken: usize,
}

/// What sockets have to wait for in the step that this thread takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// No step is being taken: sockets belong to the runtime.
    OfRuntime,
    /// Nothing yet.
    Nothing,
    /// That this is readable.
    Readable(RawFd),
    /// More than a descriptor that is to be readable.
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
    /// Begins nothing yet. `again` is called, on any thread, when another step makes sense though the descriptor is not
    /// readable: a deadline has passed.
    pub fn new(work: Work<T>, again: impl Fn() + Send + Sync + 'static) -> Self {
        Self { work: Some(work), waker: Waker::from(Arc::new(Again(again))), taken: 0 }
    }

    /// Goes as far as it can without waiting.
    ///
    /// # Errors
    /// The runtime's thread, which keeps deadlines, cannot be made.
    ///
    /// # Panics
    /// There is no more to do: it is done, or elsewhere.
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

/// Whether this thread takes a step now: sockets must not wait in the runtime.
pub(crate) fn is_taken() -> bool {
    WAIT.get() != Wait::OfRuntime
}

/// A socket of the step has nothing to read.
pub(crate) fn awaits_bytes(descriptor: RawFd) {
    WAIT.set(match WAIT.get() {
        Wait::Nothing => Wait::Readable(descriptor),
        Wait::Readable(same) if same == descriptor => Wait::Readable(same),
        _ => Wait::Other,
    });
}

/// A socket of the step has no room for what is to be written.
pub(crate) fn awaits_room() {
    WAIT.set(Wait::Other);
}

#[cfg(test)]
mod tests;
