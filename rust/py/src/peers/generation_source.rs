//! `_core.GenerationBody`: the rest of a model's answers, which the server sends as events without the interpreter.

use super::generation_reader::GenerationReader;
use penstock_core::{BodySource, Error, Kind, Result, SplicedBody};
use pyo3::prelude::*;
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Instant,
};

/// A chunk that stands for the events of answers.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct GenerationBody(SplicedBody);

impl GenerationBody {
    pub(super) fn new(reader: GenerationReader, ending: &Arc<Ending>) -> Self {
        let ending = Arc::clone(ending);
        Self(SplicedBody::new(GenerationSource { reader: Some(reader), ending }))
    }

    /// The bytes for the server.
    pub(crate) fn splice(&self) -> SplicedBody {
        self.0.clone()
    }
}

/// The result of answers that the server has read.
type Ended = (Option<GenerationReader>, Result<()>);

/// The way back from the server to the handler.
#[derive(Default)]
pub(super) struct Ending {
    state: Mutex<State>,
    /// The handler has ended.
    abandoned: AtomicBool,
}

#[derive(Default)]
struct State {
    ended: Option<Ended>,
    waker: Option<Waker>,
}

impl Ending {
    /// Returns the reader and the result, once. Before, `waker` is woken at the end.
    pub(super) fn poll(&self, waker: impl FnOnce() -> Waker) -> Option<Ended> {
        let mut state = self.lock();
        if state.ended.is_none() {
            state.waker = Some(waker());
        }
        state.ended.take()
    }

    /// Ends the answers at the next poll.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    fn end(&self, ended: Ended) {
        let mut state = self.lock();
        state.ended = Some(ended);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events of answers.
struct GenerationSource {
    /// `None` after the end.
    reader: Option<GenerationReader>,
    ending: Arc<Ending>,
}

impl GenerationSource {
    fn end(&mut self, result: Result<()>) {
        self.ending.end((self.reader.take(), result));
    }
}

impl BodySource for GenerationSource {
    fn poll_bytes(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>, limit: usize) -> Poll<()> {
        let Some(reader) = self.reader.as_mut().filter(|_| !self.ending.abandoned.load(Ordering::Acquire)) else {
            return Poll::Ready(());
        };
        match reader.poll(cx, out, limit) {
            Poll::Ready(ended) => {
                // A reader that failed is returned too: it writes the events of the error.
                self.end(ended);
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn set_deferred(&mut self, deferred: bool) {
        if let Some(reader) = &mut self.reader {
            reader.set_deferred(deferred);
        }
    }

    fn poll_at(&self) -> Option<Instant> {
        self.reader.as_ref()?.next_check()
    }
}

impl Drop for GenerationSource {
    fn drop(&mut self) {
        // The model is cancelled before the handler continues.
        if self.reader.take().is_some() {
            let text = "the client left before the end of the responses";
            self.ending.end((None, Err(Error::new(Kind::Cancelled, text))));
        }
    }
}
