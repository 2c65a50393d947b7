//! Drives a call on the calling thread, over blocking sockets.
//!
//! A blocking socket makes progress inside the poll. A poll therefore ends when the call has ended, when a signal
//! arrived, or when HTTP/2 must process what it has read ([`Gate`]).

use std::{
    cell::Cell,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// Result of driving a future.
#[derive(Debug)]
pub enum Step<T> {
    /// The future is done.
    Ready(T),
    /// A signal arrived: handle it, and drive on.
    Interrupted,
}

/// Permission of a socket to block in a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// May block.
    Open,
    /// May block once: then the reader processes the bytes.
    Once,
    /// May not block: there may be something to send first.
    Shut,
}

thread_local! {
    static GATE: Cell<Gate> = const { Cell::new(Gate::Open) };
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Drives `future` until it is done or a signal comes. Sockets time out at `deadline`.
pub fn drive<F: Future>(mut future: Pin<&mut F>, deadline: Option<Instant>) -> Step<F::Output> {
    DEADLINE.set(deadline);
    INTERRUPTED.set(false);
    GATE.set(Gate::Open);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Step::Ready(output);
        }
        if INTERRUPTED.take() {
            return Step::Interrupted;
        }
    }
}

/// Polls with a gate, which is open again afterwards.
pub(crate) fn gated<T>(gate: Gate, poll: impl FnOnce() -> T) -> T {
    GATE.set(gate);
    let polled = poll();
    GATE.set(Gate::Open);
    polled
}

/// Polls TLS, which reads ahead: a second read might block forever.
#[cfg(feature = "tls")]
pub(crate) fn with_one_read<T>(poll: impl FnOnce() -> T) -> T {
    if GATE.get() == Gate::Open { gated(Gate::Once, poll) } else { poll() }
}

/// Returns whether a read may block now.
pub(crate) fn may_read() -> bool {
    match GATE.get() {
        Gate::Open => true,
        Gate::Once => {
            GATE.set(Gate::Shut);
            true
        }
        Gate::Shut => false,
    }
}

/// Reports that a signal ended a system call.
pub(crate) fn interrupt<T>() -> Poll<T> {
    INTERRUPTED.set(true);
    Poll::Pending
}

/// Returns whether a signal ended a system call in this poll.
pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.get()
}

/// Remaining time of the call.
///
/// # Errors
/// `TimedOut` when its time is over.
pub(crate) fn time_left() -> io::Result<Option<Duration>> {
    let Some(deadline) = DEADLINE.get() else { return Ok(None) };
    match deadline.checked_duration_since(Instant::now()) {
        // A timeout of zero would mean none.
        Some(left) if left > Duration::from_micros(1) => Ok(Some(left)),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Sleeps on the calling thread, in steps between which signals are handled.
pub(crate) async fn sleep(duration: Duration) {
    const NAP: Duration = Duration::from_millis(50);
    let end = Instant::now() + duration;
    std::future::poll_fn(|_| match end.checked_duration_since(Instant::now()) {
        None | Some(Duration::ZERO) => Poll::Ready(()),
        Some(left) => {
            std::thread::sleep(left.min(NAP));
            interrupt()
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    #[test]
    fn blocking_sleep_is_interrupted_for_signals() {
        let start = Instant::now();
        let mut future = pin!(sleep(Duration::from_millis(120)));
        let mut interruptions = 0;
        while let Step::Interrupted = drive(future.as_mut(), None) {
            interruptions += 1;
        }
        assert!(interruptions >= 3 && start.elapsed() >= Duration::from_millis(120));
    }

    #[test]
    fn once_gate_permits_one_read() {
        assert!(may_read() && may_read());
        assert_eq!(gated(Gate::Once, || (may_read(), may_read())), (true, false));
        assert!(!gated(Gate::Shut, may_read));
        assert!(may_read());
    }
}
