//! Part of a streamed body whose bytes are produced without the model that answers.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Instant,
};

/// Producer of bytes, for example of the events of another model's stream.
pub trait BodySource: Send {
    /// Appends available bytes to `out`, until it has `limit` or more. Completes at the end; until then the task is
    /// woken when more may be available.
    fn poll_bytes(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>, limit: usize) -> Poll<()>;

    /// With `deferred`, a poll that waits is woken when many bytes are available or at the end.
    fn set_deferred(&mut self, deferred: bool);

    /// Time at which to poll again even without a wake-up; `None` without such a time.
    fn poll_at(&self) -> Option<Instant>;
}

/// A chunk of a streamed response that stands for all bytes of a [`BodySource`]. The chunks after it follow at its end;
/// the last chunk of a response cannot be one.
///
/// Its clones share one source, which the first [`SplicedBody::take`] takes. Dropping them all drops the source.
#[derive(Clone)]
pub struct SplicedBody(Arc<Mutex<Option<Box<dyn BodySource>>>>);

impl SplicedBody {
    /// Wraps a source.
    pub fn new(source: impl BodySource + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(source)))))
    }

    /// Takes the source; `None` if it was taken.
    #[must_use]
    pub fn take(&self) -> Option<Box<dyn BodySource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for SplicedBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SplicedBody").finish_non_exhaustive()
    }
}

impl PartialEq for SplicedBody {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SplicedBody {}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl BodySource for Nothing {
        fn poll_bytes(&mut self, _: &mut Context<'_>, _: &mut Vec<u8>, _: usize) -> Poll<()> {
            Poll::Ready(())
        }

        fn set_deferred(&mut self, _: bool) {}

        fn poll_at(&self) -> Option<Instant> {
            None
        }
    }

    #[test]
    fn source_is_taken_once() {
        let body = SplicedBody::new(Nothing);
        let copy = body.clone();
        assert!(copy == body && body != SplicedBody::new(Nothing));
        assert!(copy.take().is_some());
        assert!(body.take().is_none());
    }
}
