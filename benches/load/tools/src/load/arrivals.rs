//! Start times of an open loop's requests.

use std::{
    thread,
    time::{Duration, Instant},
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Distribution of starts over time, at the same mean rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arrivals {
    /// All the same time apart.
    Even,
    /// Independent of each other.
    Poisson,
    /// Independent, with four times the rate in the first fifth of each second and a quarter of it in the rest.
    Bursts,
}

const BURST_SHARE: f64 = 0.2;

/// Sends each start at its time, on a separate thread: the runtime's timer has a resolution of 1 ms.
pub(crate) fn spawn(rate: f64, arrivals: Arrivals, from: Instant, end: Instant) -> UnboundedReceiver<Instant> {
    let (sender, receiver) = unbounded_channel();
    thread::spawn(move || {
        let (mut draws, mut at) = (Draws::new(7), 0.0_f64);
        loop {
            at += match arrivals {
                Arrivals::Even => 1.0 / rate,
                Arrivals::Poisson => -draws.next().ln() / rate,
                Arrivals::Bursts => -draws.next().ln() / (rate * if at.fract() < BURST_SHARE { 4.0 } else { 0.25 }),
            };
            let start = from + Duration::from_secs_f64(at);
            if start >= end {
                break;
            }
            thread::sleep(start.saturating_duration_since(Instant::now()));
            if sender.send(start).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Numbers between 0 and 1, the same ones in each run (splitmix64).
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + f64::EPSILON
    }
}
