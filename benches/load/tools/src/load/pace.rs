//! Start times of requests, and the end of the run.

use crate::{arrivals, options::Options};
use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, mpsc::UnboundedReceiver};

/// The clock of one run.
pub(crate) struct Pace {
    measure_from: Instant,
    end: Instant,
    /// The starts of an open loop; none for a closed one.
    starts: Option<Mutex<UnboundedReceiver<Instant>>>,
    requests_left: Cell<u64>,
    draws: RefCell<arrivals::Draws>,
    leave: f64,
}

impl Pace {
    pub(crate) fn new(options: &Options, start: Instant) -> Self {
        let measure_from = start + Duration::from_secs_f64(options.warm_up);
        let end = measure_from + Duration::from_secs_f64(options.seconds);
        Self {
            measure_from,
            end,
            starts: (options.rate > 0.0)
                .then(|| Mutex::new(arrivals::spawn(options.rate, options.arrivals, start, end))),
            requests_left: Cell::new(if options.requests == 0 { u64::MAX } else { options.requests }),
            draws: RefCell::new(arrivals::Draws::new(1)),
            leave: options.leave,
        }
    }

    /// Waits for the next request's start. Returns the time from which its latency counts; `None` when the run is over.
    pub(crate) async fn turn(&self) -> Option<Instant> {
        let start = match &self.starts {
            None => Instant::now(),
            Some(starts) => starts.lock().await.recv().await?,
        };
        self.requests_left.set(self.requests_left.get().checked_sub(1)?);
        // In an open loop that is behind, the intended start lies before the end and the real one after it.
        (Instant::now() < self.end).then_some(start)
    }

    /// Returns true if the next request's client disconnects early.
    pub(crate) fn leaves(&self) -> bool {
        self.leave > 0.0 && self.draws.borrow_mut().next() < self.leave
    }

    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    pub(crate) fn measures(&self, at: Instant) -> bool {
        at >= self.measure_from && at <= self.end
    }
}
