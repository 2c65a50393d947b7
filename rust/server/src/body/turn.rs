//! Turns of streamed bodies.

use std::task::{Context, Poll};

/// Length of a streamed body's frame from which further responses wait for the next one.
pub(crate) const FRAME_BYTES: usize = 16 << 10;

/// Turn of a streamed body: it sends some frames, then lets the other tasks of its I/O thread run.
///
/// A handler that is faster than the socket would keep its stream's task busy until the socket's buffers are full.
/// Meanwhile a new stream's first response would wait. What comes until the next turn leaves in one frame.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Bytes sent in this turn.
    sent: usize,
}

impl Turn {
    /// Begins to send a frame of `bytes`. Completes at once until the turn has sent [`FRAME_BYTES`]; then it ends the
    /// turn, and the task is polled again.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
        if self.sent >= FRAME_BYTES {
            self.sent = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.sent += bytes;
        Poll::Ready(())
    }

    /// Ends the turn of a body that has nothing to send.
    pub(crate) fn end(&mut self) {
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Wake, Waker},
    };

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn frame_beyond_a_turn_waits_for_the_next_poll_of_the_task() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let (mut cx, mut turn) = (Context::from_waker(&waker), Turn::default());
        for turns in 1..3 {
            assert!(turn.poll_send(&mut cx, FRAME_BYTES - 1).is_ready());
            assert!(turn.poll_send(&mut cx, 1).is_ready());
            assert!(turn.poll_send(&mut cx, 1).is_pending());
            assert_eq!(wakes.0.load(Ordering::Relaxed), turns);
        }
    }

    #[test]
    fn body_that_waits_for_its_handler_has_a_new_turn() {
        let (mut cx, mut turn) = (Context::from_waker(Waker::noop()), Turn::default());
        assert!(turn.poll_send(&mut cx, FRAME_BYTES).is_ready());
        turn.end();
        assert!(turn.poll_send(&mut cx, FRAME_BYTES).is_ready());
    }
}
