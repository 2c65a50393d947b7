//! Learns whether answered callers come back at once.
//!
//! Closed-loop callers send their next request as soon as they have an answer. A batcher that never
//! waits then falls into batches of 1 and n-1 in turn and halves the throughput. So it learns the
//! share of just-answered requests that are replaced within a short window, and while that share is
//! high, the next batch is held until they are back, or the window has passed.

use std::collections::VecDeque;

/// The window after an answer, as a share of the fixed cost of a batch.
const WINDOW_SHARE: f64 = 0.1;

/// Below this a window is shorter than a thread takes to wake up, and holding gains nothing.
const SHORTEST_WINDOW_NS: u64 = 50_000;

/// The weight of the newest batch in the learned share.
const LEARNING_RATE: f64 = 0.1;

/// The learned share from which on callers are expected back.
const EXPECT_FROM: f64 = 0.5;

/// Windows that are watched at once; instances answer independently of each other.
const OPEN_WINDOWS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Window {
    closes_ns: u64,
    answered: usize,
    arrived: usize,
}

/// The learned share of returning callers, and the hold that follows from it.
#[derive(Clone, Debug, Default)]
pub struct Returns {
    share: f64,
    windows: VecDeque<Window>,
    hold_until_ns: u64,
    expected: usize,
    arrived: usize,
}

/// What a hold still waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// When it ends, whatever came.
    pub until_ns: u64,
    /// Arrivals that end it earlier.
    pub missing: usize,
}

/// The window after an answer, where a batch costs `fixed_ns` whatever its size.
pub fn window_ns(fixed_ns: u64) -> u64 {
    (fixed_ns as f64 * WINDOW_SHARE) as u64
}

impl Returns {
    /// One request arrived.
    pub fn arrival(&mut self, now_ns: u64) {
        self.arrived += 1;
        for window in &mut self.windows {
            if now_ns <= window.closes_ns {
                window.arrived += 1;
            }
        }
    }

    /// A batch of `requests` was answered; `fixed_ns` is the fixed cost of a batch.
    pub fn answered(&mut self, now_ns: u64, requests: usize, fixed_ns: u64) {
        while let Some(window) = self.windows.front().filter(|window| now_ns > window.closes_ns) {
            let replaced = (window.arrived as f64 / window.answered.max(1) as f64).min(1.0);
            self.share += LEARNING_RATE * (replaced - self.share);
            self.windows.pop_front();
        }
        let length = window_ns(fixed_ns);
        self.hold_until_ns = 0;
        if length < SHORTEST_WINDOW_NS {
            return;
        }
        let closes_ns = now_ns.saturating_add(length);
        if self.windows.len() < OPEN_WINDOWS {
            self.windows.push_back(Window { closes_ns, answered: requests, arrived: 0 });
        }
        if self.share >= EXPECT_FROM {
            self.expected = ((self.share * requests as f64).round() as usize).max(1);
            self.arrived = 0;
            self.hold_until_ns = closes_ns;
        }
    }

    /// A batch was cut: what was held for has left.
    pub fn cut(&mut self) {
        self.hold_until_ns = 0;
    }

    /// The hold that is on at `now`, if there is one.
    pub fn hold(&self, now_ns: u64) -> Option<Hold> {
        let missing = self.expected.saturating_sub(self.arrived);
        (now_ns < self.hold_until_ns && missing > 0).then_some(Hold { until_ns: self.hold_until_ns, missing })
    }

    /// Whether the last hold ended because all expected callers are back.
    pub fn all_back(&self) -> bool {
        self.hold_until_ns > 0 && self.arrived >= self.expected
    }

    /// Whether a hold was set and has run out.
    pub fn expired(&self, now_ns: u64) -> bool {
        self.hold_until_ns > 0 && now_ns >= self.hold_until_ns
    }

    /// The learned share of answered requests that are replaced at once, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }
}
