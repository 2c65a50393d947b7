//! Learned hold: predicts whether answered clients come back at once.
//!
//! Closed-loop clients send their next request right after a response. Without a hold, batches then alternate between 1
//! and n-1 rows, which halves the throughput. The policy learns the share of answered requests that are replaced
//! within a short window. While the share is high, the next batch is held until the clients are back or the window
//! has passed.

use std::collections::VecDeque;

/// Window after a batch, as a fraction of the fixed batch cost.
const WINDOW_SHARE: f64 = 0.1;

/// Minimum window in nanoseconds: shorter than this, a thread does not wake up in time, and a hold gains nothing.
const MIN_WINDOW_NS: u64 = 50_000;

/// Weight of the newest batch in the learned share.
const LEARNING_RATE: f64 = 0.1;

/// Learned share from which clients are expected back.
const EXPECT_FROM: f64 = 0.5;

/// Maximum number of open windows; instances answer independently of each other.
const OPEN_WINDOWS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Window {
    closes_ns: u64,
    answered: usize,
    arrived: usize,
}

/// Learned share of returning clients, and the current hold.
#[derive(Clone, Debug, Default)]
pub struct Returns {
    share: f64,
    windows: VecDeque<Window>,
    hold_until_ns: u64,
    expected: usize,
    arrived: usize,
}

/// Current hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// End of the hold.
    pub until_ns: u64,
    /// Arrivals that end it earlier.
    pub missing: usize,
}

/// Window after a batch, in nanoseconds, for a fixed batch cost.
pub fn window_ns(fixed_ns: u64) -> u64 {
    (fixed_ns as f64 * WINDOW_SHARE) as u64
}

impl Returns {
    /// Records an arrival.
    pub fn arrival(&mut self, now_ns: u64) {
        self.arrived += 1;
        for window in &mut self.windows {
            if now_ns <= window.closes_ns {
                window.arrived += 1;
            }
        }
    }

    /// Records an answered batch; `fixed_ns` is the fixed batch cost.
    pub fn answered(&mut self, now_ns: u64, requests: usize, fixed_ns: u64) {
        while let Some(window) = self.windows.front().filter(|window| now_ns > window.closes_ns) {
            let replaced = (window.arrived as f64 / window.answered.max(1) as f64).min(1.0);
            self.share += LEARNING_RATE * (replaced - self.share);
            self.windows.pop_front();
        }
        let length = window_ns(fixed_ns);
        self.hold_until_ns = 0;
        if length < MIN_WINDOW_NS {
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

    /// Records the cut of a batch, which ends the hold.
    pub fn cut(&mut self) {
        self.hold_until_ns = 0;
    }

    /// Current hold, if any.
    pub fn hold(&self, now_ns: u64) -> Option<Hold> {
        let missing = self.expected.saturating_sub(self.arrived);
        (now_ns < self.hold_until_ns && missing > 0).then_some(Hold { until_ns: self.hold_until_ns, missing })
    }

    /// Returns true if the last hold ended because all expected clients returned.
    pub fn all_back(&self) -> bool {
        self.hold_until_ns > 0 && self.arrived >= self.expected
    }

    /// Returns true if a hold was set and has run out.
    pub fn expired(&self, now_ns: u64) -> bool {
        self.hold_until_ns > 0 && now_ns >= self.hold_until_ns
    }

    /// Learned share of answered requests that are replaced at once, 0 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }
}
